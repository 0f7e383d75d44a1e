// The order of what an apply writes. It is what makes two promises hold in any crash
// when, of the agent or of the host: nothing that was begun is lost or repeated, and a file is
// old or new, whole. A write that need not be in this order shares its wait for the disk with
// something else. TestOrder and TestOrderOfTheResult trace it, TestKilledAtEveryWrite kills
// between any two steps.
//
//  1. The ledger with the delivery is durable, and the delivery claimed, before anything is
//     changed on the host. What is the agent's own (the interlock, its working directory, a
//     supervisor that waits) may be made beside both.
//  2. Each regular file: new content under a hidden name that only its owner can read; owner
//     and mode; durable; its name; the name durable. The old file is there until the new one
//     takes its name. Of the files of a plan each step may be done for several before the next.
//  3. Files are struck off the ledger, and instructions start, when the names of the files
//     before them are durable.
//  4. The ledger says that an instruction is open, durably, before its command can be found
//     by a supervisor. Of the first it may say so before the files: they are struck off on disk
//     once the instruction runs, and an agent that goes on takes them for done when it has begun.
//     After a reboot between the two an instruction that never ran counts as interrupted once.
//  5. A result in its file: output and result durable, then the result's name, then that name
//     durable. An agent that waits gets the result by a socket and acts by 6; the file is for
//     one that does not, and is written as soon as the agent is seen to be gone.
//  6. The ledger with a result is durable before the next instruction starts. The outcome is
//     durable before the next delivery is begun and before the server learns of it, but for a
//     server that keeps a plan-state: that gets it first and makes it durable there, and the
//     ledger follows. A Secret whose plan-state is an end is not acted on again, even against the
//     ledger, and the ledger gets the end from there (Engine.Conclude).
//  7. The history's entry is durable before the next delivery is begun: it comes after the outcome
//     and beside its report. An agent that finds an outcome without one adds it, without the
//     text of the plan, before anything else (past.recall).
//
// What need not be durable: who supervises an instruction, how far its output was logged, and
// that an outcome was reported. They have to outlive the agent and not the host.

package apply
