"""One intake of every listener: bounds on connections, bytes and seconds, by address and tenant. It knows no API."""
