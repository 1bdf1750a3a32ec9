"""Where scaling signals are read from.  Each module answers for one kind of source and knows no other."""
