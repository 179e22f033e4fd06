"""Fetch the jars of a real Apache Kafka by their Maven coordinates, once, into a cache.

`python -m tests.kit.kafka fetch` calls this; tests only look whether the jars are there.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

KAFKA_VERSION = "4.3.1"
LOG4J_VERSION = "2.25.4"
PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"
FETCH_TIMEOUT_S = 600

# Kafka logs through slf4j 1.7 and ships no binding in its own coordinates; without one it is mute.
POM = f"""\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>tally.tests</groupId>
  <artifactId>kafka-jars</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka_2.13</artifactId>
      <version>{KAFKA_VERSION}</version>
    </dependency>
    <dependency>
      <groupId>org.apache.logging.log4j</groupId>
      <artifactId>log4j-slf4j-impl</artifactId>
      <version>{LOG4J_VERSION}</version>
    </dependency>
  </dependencies>
</project>
"""


def jars_dir() -> Path:
    """Where the jars of this version are, or will be once fetched."""
    cache = os.environ.get("TALLY_CACHE")
    root = Path(cache) if cache else Path.home() / ".cache" / "tally"
    return root / f"kafka-{KAFKA_VERSION}"


def have_jars() -> bool:
    """True when a fetch was completed: the folder appears whole, by one rename, or not at all."""
    return (jars_dir() / f"kafka_2.13-{KAFKA_VERSION}.jar").exists()


def fetch_jars() -> Path:
    """Fetch the jars unless they are there; print what is done; may take a minute.

    Raises FileNotFoundError without Maven and CalledProcessError when Maven fails.
    """
    target = jars_dir()
    if have_jars():
        print(f"Apache Kafka {KAFKA_VERSION} is already in {target}")
        return target
    maven = shutil.which("mvn")
    if maven is None:
        raise FileNotFoundError("Maven is not installed: install `mvn` and Java 17, then try again")
    print(f"fetching Apache Kafka {KAFKA_VERSION} with {maven} into {target}", flush=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="fetch-") as scratch:
        jars = Path(scratch) / "jars"
        (Path(scratch) / "pom.xml").write_text(POM)
        command = [maven, "-B", "-q", f"{PLUGIN}:copy-dependencies", f"-DoutputDirectory={jars}"]
        subprocess.run(command, cwd=scratch, check=True, timeout=FETCH_TIMEOUT_S)
        shutil.rmtree(target, ignore_errors=True)
        jars.rename(target)
    print(f"{len(list(target.glob('*.jar')))} jars are in {target}")
    return target
