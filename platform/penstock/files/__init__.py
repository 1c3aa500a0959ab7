"""Files of processes of this machine, of which no reader and no crash may leave a part."""
