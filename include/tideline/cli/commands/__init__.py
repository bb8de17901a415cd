"""The commands of `tideline`, with their options and help."""
