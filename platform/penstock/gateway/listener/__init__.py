"""The gateway's socket side: connections, bytes in and out, limits on both, errors as HTTP answers. It knows no API."""
