Name = "slot1@ap1"
Machine = "ap1"
MyType = "Machine"
Arch = "X86_64"
OpSys = "LINUX"
Memory = 7680
Cpus = 4
Disk = 74940556
State = "Unclaimed"
Activity = "Idle"
SlotType = "Partitionable"
PartitionableSlot = true
Requirements = START && (TARGET.RequestMemory <= Memory)
START = TARGET.Owner != "bob"
Rank = 0.0
CurrentRank = 0.0

Name = "slot1@ap2"
Machine = "ap2"
MyType = "Machine"
Arch = "ARM"
OpSys = "LINUX"
Memory = 1024
Cpus = 2
Disk = 74940
State = "Owner"
Activity = "Idle"
Requirements = true
START = true
