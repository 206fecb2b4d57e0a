"""`ullage tank up`, `down` and `status`: the processes of a tank, and who looks after them.

plan        what is to run, on which ports        gate        a child waits until its name is written down
process     who a process is, and its end         state       what runs, as a file that outlives us
child       one process, watched                  supervisor  all of them: started, restarted, ended
run         up, from the first check to the last  background  the same, without a terminal
"""
