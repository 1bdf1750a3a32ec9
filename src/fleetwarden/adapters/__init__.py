"""What reaches the world, one package a kind of thing: processes, files, notifications, this machine's clock.

Each adapter fulfils a port and knows nothing of the store, of the controllers, or of its neighbours.
"""
