// The help text of hvdrun.
#include "cli/help/command_doc.h"
#include "cli/options/hvdrun_flags.h"

#include <iterator>
#include <string>

#include "model/exit_code.h"

namespace muster::cli::inline options {
namespace {

constexpr GroupTitle kRunGroups[] = {
    {FlagGroup::kRanks, "Ranks"},         {FlagGroup::kHosts, "Hosts"},   {FlagGroup::kSsh, "Reaching the hosts"},
    {FlagGroup::kProgram, "The program"}, {FlagGroup::kOutput, "Output"}, {FlagGroup::kLife, "Start, end and failure"},
    {FlagGroup::kGeneral, "General"}};

// Skip codes that only muster's verbs return.
std::vector<ExitCode> exit_codes_of_a_job() {
  std::vector<ExitCode> codes;
  for (const auto& [cause, sentence] : model::kExitCodes) {
    const bool is_of_verbs =
        cause == model::kNotAnswered || cause == model::kHasSuspects || cause == model::kHostsSilent;
    if (!is_of_verbs) codes.push_back({std::to_string(cause), sentence});
    if (cause == model::kSuccess) codes.push_back({"N, 128+signal", "the code of the rank that failed first"});
  }
  return codes;
}

}  // namespace

std::vector<GroupTitle> with_run_groups(std::vector<GroupTitle> own) {
  own.insert(own.end(), std::begin(kRunGroups), std::end(kRunGroups));
  return own;
}

const CommandDoc& hvdrun_doc() {
  static const CommandDoc kDoc = {
      .name = "hvdrun",
      .summary = "run a distributed program on this host or on many",
      .usage = "[options] command [arguments of the command]",
      .description =
          "Runs a distributed program: one process (rank) for each slot, on this machine or on many hosts over ssh. "
          "Nothing has to be installed on the hosts, and nothing is left running there afterwards.\n\n"
          "All options of horovodrun 0.28.1 are understood. Called as horovodrun, it also takes abbreviations of them.",
      .groups = {{FlagGroup::kRanks, "Ranks"},
                 {FlagGroup::kHosts, "Hosts"},
                 {FlagGroup::kSsh, "Reaching the hosts"},
                 {FlagGroup::kProgram, "The program"},
                 {FlagGroup::kOutput, "Output"},
                 {FlagGroup::kLife, "Start, end and failure"},
                 {FlagGroup::kTuning, "Tuning Horovod"},
                 {FlagGroup::kElastic, "Elastic jobs"},
                 {FlagGroup::kGeneral, "General"}},
      .table = &hvdrun_flags(),
      .notes =
          "TIME is a number and a unit: 30, 30s, 5m, 1.5h, 500ms. Options end at the first word that is not an option, "
          "or at --; the rest is the command, unchanged.\n\nInside a Slurm, PBS or Cobalt job the hosts are those of "
          "the job, unless -H or --hostfile names others.",
      .examples = {{"hvdrun -np 4 ./my_program", "four ranks on this host"},
                   {"hvdrun -np 16 -H n1:4,n2:4,n3:4,n4:4 python3 train.py", "four ranks on each of four hosts"},
                   {"hvdrun -N 4 -H 'gpu[01-16]' python3 train.py --epochs 3", "four ranks on each of 16 hosts"},
                   {"hvdrun -np 8 --hostfile hosts -p 2222 -i key --output-filename logs python3 train.py",
                    "hosts from a file, by another port and key; each rank's output also in a file"},
                   {"hvdrun -np 8 -H n1:4,n2:4 -x NCCL_DEBUG=INFO --timeout 2h -- python3 train.py",
                    "with a variable for the ranks, and for two hours at most"},
                   {"hvdrun -H 'n[0001-1000]:8' --min-hosts 990 --start-timeout 2m python3 train.py",
                    "without hosts that are not up after two minutes, if at most ten are missing"},
                   {"hvdrun -np 8 -H n1:4,n2:4 --dry-run", "which rank would run where"},
                   {"hvdrun --dry-run --assume-node polaris -np 8 -N 4", "the same at a site, by its job template"},
                   {"hvdrun -t polaris python3 train.py", "inside a job of the site, pinned as its template says"},
                   {"hvdrun -np 1 -H n1 ./server : -np 4 -H n2:2,n3:2 ./worker", "two programs as one job"},
                   {"hvdrun --runtime mxnet --num-workers 2 --num-servers 2 -H n1,n2 python3 train.py",
                    "MXNet's parameter server"},
                   {"hvdrun --min-np 4 --max-np 16 --host-discovery-script ./hosts.sh python3 train.py",
                    "an elastic job of Horovod: its hosts are those that the script prints"},
                   {"hvdrun --stage train -np 8 -H n1:4,n2:4 ./train/run", "the folder train is copied to the hosts"},
                   {"hvdrun --stage-env venv -np 8 -H n1:4,n2:4 python3 train.py",
                    "the active virtual environment is copied to the hosts' disks, and ranks start from there"},
                   {"hvdrun -np 4 --expand ./sim --seed {rank}", "a rank's number as an argument"}},
      .exit_codes = exit_codes_of_a_job(),
      .most_used = {"num-proc", "ranks-per-node", "hosts", "hostfile", "ssh-port", "env", "timeout", "output-filename",
                    "max-restarts", "template", "dry-run", "verbose", "version"},
  };
  return kDoc;
}

}  // namespace muster::cli::options
