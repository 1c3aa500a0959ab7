"""The intake of all listeners: bounds on connections, bytes and seconds, by address and tenant. It knows no API."""
