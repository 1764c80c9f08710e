"""Work in other processes, to the same bits: units of a plant in this process, and blocks of a large plant."""
