"""The routes of the API, by topic.  Each translates one request into one call of `app`; none decides anything."""
