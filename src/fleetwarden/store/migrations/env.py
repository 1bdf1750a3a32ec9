"""Runs the migrations on the connection that `store.revisions` hands over, inside its transaction."""

from alembic import context

from fleetwarden.store.schema import METADATA, VERSION_TABLE

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    version_table=VERSION_TABLE,
    transactional_ddl=True,
)
context.run_migrations()
