"""What monitoring systems send, read into events.  One module for each kind of sender; none of them acts or keeps."""
