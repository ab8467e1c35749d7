ClusterId = 7
ProcId = 3
Big = 5000000000
Neg = -5
F = 3.75
S = "hello"
B = true
L = {1,2,"a"}
U = undefined
X = error
N = [a=1;b="c"]
T = 1795217000
Ex = ClusterId * 2
