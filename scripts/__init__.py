"""Programs that write the documentation; nothing that runs imports them."""
