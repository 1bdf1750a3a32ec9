"""The HTTP API and the one page: a request becomes a call of `app`, its answer becomes JSON or words.

Nothing is decided here.  Roles, attribution and every rule live below; this layer reads strictly, says who asks, and
turns each error into one constant kind of answer.  It never sees a store, an adapter or a controller.  `application`
builds the app over a running plane, `server` listens; neither is imported by commands that do not serve.
"""
