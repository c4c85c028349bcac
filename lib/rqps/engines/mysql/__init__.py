"""MySQL: one of the engines that can be measured."""
