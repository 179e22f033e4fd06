-- Which incarnation of the live build had counted the log when a build was begun that counts it anew: its cells have the
-- same names then, and the two can be compared.
ALTER TABLE tally.rebuilds
    ADD COLUMN IF NOT EXISTS incarnations Array(UInt32) COMMENT 'Under which incarnation each partition is counted; 0 where none is told';
