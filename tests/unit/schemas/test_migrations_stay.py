"""A numbered file that was released never changes: databases that have it would be refused.

Whoever wants other tables adds a file, and its line here.
"""

from schemas.migrate import read_migrations

CHECKSUMS = {
    "0001_cells.sql": "3c5c60838fa0b9c828986c7b1f5918ee5c158e2277e5f341fa01cf3b9fef87b9",
    "0002_shards.sql": "e119bbe6ac74052ca4dba9595684419647d6d359fcde375bb481f66fae00b4c5",
    "0003_control.sql": "e293d5be155566791b2f35f190070e213b0596670e88c16158d3bb250e7e9e7d",
    "0004_rollups.sql": "581e9675be2b8d29407644ec81ccc8dd956519e9fbbe79d3ecea847b5c73e9af",
    "0005_views.sql": "0cba980bbeef3d3c50184bd22381af2ad84c333d5aff1f7994e9fe6f8b68782f",
    "0006_counts.sql": "e2549221d425d93bb68f07943c91b5e4a30922206080f21e13db0f1a2044a9d8",
    "0007_top.sql": "821367f52c78b1e8497e3750ef2566defb3324be5560e35cc0bfc351e62ed23a",
    "0008_retries.sql": "d970e7a857724d42b92f3faa9499ed1d35009679a2ecd7cc068aeef035934f28",
    "0009_retention.sql": "b7aa40ad669b410c6bfc79f845ed83398759d22b240738fe7582ef98eb38fde9",
    "0010_distinct.sql": "bb40ef8a3f09c46c949823204020cf920cd9790021fb6cfecedc3ea73f123301",
    "0011_trends.sql": "ef38ef832fdccec6defff7ce9471c68a4e3af31ff0926aa3d7c6b5f2b65264e1",
    "0012_sketches.sql": "6caac357be4359c4025ec788efa417fef13b140e8cd361acaa4a8ee50bd52314",
    "0013_slots.sql": "1e168ccbcb73156aa0702e945db5369197134283b5dccdf26e3fa9b2c68947c0",
    "0014_adjustments.sql": "48eda43a80153d0582e460d999dd7a1e665e842f745de5344ac14612d493c9d7",
    "0015_exchange.sql": "48c0f5850772e958654fbbd8493d4e70e9638d249da1e6211be87221456944d2",
    "0016_strict.sql": "8735ff62f95fd856d59b713cb795063e8d0908d55dcd62899e79f97a4e573dbe",
    "0017_partitions.sql": "11fb742c37343d5425456645a72f2f95e6d0df6b379aebda7a4b52407bf56824",
    "0018_incarnations.sql": "e7b0649fad7369eb96fcb6efabe92145bd7a5c20ca1360a3febd6f1754f2b7c2",
    "0019_put_back.sql": "0a6c21f60b6ebb3ec5f356f58c9d25667afc1e0767590d63b10f66523ebe8961",
}


def test_every_numbered_file_is_as_it_was_when_it_was_released() -> None:
    assert {one.file: one.checksum for one in read_migrations()} == CHECKSUMS
