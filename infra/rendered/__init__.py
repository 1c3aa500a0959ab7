"""Facts about the pinned charts: Helm renders them with our values, and what they bring is checked in with its date."""
