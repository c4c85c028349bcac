"""Moved to `words`; this door closes when its last user has moved."""

from rqps.view.words import Sentences as Sentences
