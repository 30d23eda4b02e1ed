#include "cli/ensemble/ensemble.h"

#include <array>

namespace muster::cli::inline ensemble {
namespace {

constexpr auto kEnsembleFlagsOfHvdrun =
    std::to_array<std::string_view>({"hosts", "hostfile", "nodes", "spare", "health-check", "ranks-per-node",
                                     "ssh-port", "ssh-identity-file", "ssh-backend", "agent-link", "agent-dir",
                                     "bootstrap", "bootstrap-cmd", "verbose", "start-timeout", "config-file"});

std::vector<FlagRow> own_rows() {
  return {
      option("output", {"--output"}, "DIR",
             "Where the jobs' output goes: DIR/NAME/rank.NN/stdout and stderr. Without it: what the file says, else "
             "a folder named after the file.")
          .completes(Completes::kDirectory)
          .command_line_only(),
      toggle("fail-fast", {{"--fail-fast", "true"}}, "When a job fails, end all others.").command_line_only(),
      toggle("json", {{"--json", "true"}}, "Print one muster.v1.Job a line, as each job ends.").command_line_only(),
      toggle("dry-run", {{"--dry-run", "true"}}, "Print the jobs as lines of muster submit, and start nothing.")
          .command_line_only()};
}

}  // namespace

const CommandDoc& ensemble_doc() {
  static const FlagTable kTable = host_verb_flags(kEnsembleFlagsOfHvdrun, own_rows());
  static const CommandDoc kDoc = {
      .name = "muster ensemble",
      .summary = "run many jobs over the hosts of one allocation",
      .usage = "[options] FILE",
      .description =
          "Runs the jobs of a YAML file, as many at a time as there are slots, and waits for all. One agent a host is "
          "started for all of them together. Prints a line for each job as it ends; the output of its ranks goes to "
          "files. While it runs, muster jobs, logs, top and kill show and end its jobs with the --launcher that it "
          "names at its start.\n\n"
          "The file holds jobs: a list of name, command (a list of words), np, ranks_per_node, timeout, wdir, hosts, "
          "priority, env (NAME: VALUE), options (hvdrun's, as words) and sweep (KEY: a list, or a range as 0-9), which "
          "makes one job of each combination: {KEY} is replaced in name, command, env and options. What all jobs share "
          "goes to defaults. output names the folder for output.",
      .groups = {{FlagGroup::kRanks, "Slots"},
                 {FlagGroup::kHosts, "Hosts"},
                 {FlagGroup::kSsh, "Reaching the hosts"},
                 {FlagGroup::kOutput, "Output"},
                 {FlagGroup::kLife, "Start"},
                 {FlagGroup::kGeneral, "General"}},
      .table = &kTable,
      .notes = "Without -H and --hostfile: the hosts of the scheduler's job around, else this one.",
      .examples = {{"muster ensemble sweep.yaml", "in an allocation: its hosts and slots"},
                   {"muster ensemble -H n1,n2 -N 4 --fail-fast sweep.yaml", ""},
                   {"muster ensemble --nodes 0-3 --spare 1 --output results sweep.yaml", ""},
                   {"muster ensemble --dry-run sweep.yaml", "which jobs there are"}},
      .exit_codes = {{"0", "every job ended with 0"},
                     {"1", "a job failed"},
                     {"2", "wrong command line, file or configuration; nothing was started"},
                     {"125", "the hosts could not be used"},
                     {"130", "interrupted, after all jobs were ended; 143 and 129 likewise"}},
  };
  return kDoc;
}

ParsedEnsemble parse_ensemble_line(const std::vector<std::string>& arguments, const base::Environment& environment,
                                   const ParseContext& context) {
  ParsedEnsemble parsed;
  const HostVerb verb{.doc = ensemble_doc(),
                      .take = [&parsed](const GivenOption& option) -> base::Result<bool> {
                        const std::string_view name = option.flag->name;
                        if (name == "output") {
                          parsed.output = option.value;
                        } else if (name == "fail-fast") {
                          parsed.stops_at_failure = true;
                        } else if (name == "json") {
                          parsed.json = true;
                        } else if (name == "dry-run") {
                          parsed.dry_run = true;
                        } else {
                          return false;
                        }
                        return true;
                      },
                      .advice = {},
                      .parse_words = [&parsed](const std::vector<std::string>& words) -> base::Status {
                        if (words.size() != 1) {
                          return {base::Code::kInvalidArgument,
                                  words.empty()
                                      ? "which file? One that lists the jobs; muster ensemble --help shows how"
                                      : "one file is taken, and nothing after it: options come first"};
                        }
                        parsed.file = words.front();
                        return base::ok_status();
                      }};
  static_cast<HostVerbLine&>(parsed) = read_host_verb(verb, arguments, environment, context);
  return parsed;
}

}  // namespace muster::cli::ensemble
