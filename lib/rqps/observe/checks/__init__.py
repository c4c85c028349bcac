"""What the doctor looks at: one file a part of the machine, each with functions that give findings."""
