"""Adapters of other tools to launcherd, each over muster.client. Each module needs the tool that it is for."""
