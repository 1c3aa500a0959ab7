"""The boards, one in each file; the file's name is the end of its UID."""
