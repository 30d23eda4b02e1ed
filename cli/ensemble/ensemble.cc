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
             "Write the jobs' output to DIR/NAME/rank.NN/stdout and stderr. Default: the folder that the file names, "
             "else one named after the file.")
          .completes(Completes::kDirectory)
          .command_line_only(),
      toggle("fail-fast", {{"--fail-fast", "true"}}, "End all other jobs when one fails.").command_line_only(),
      toggle("json", {{"--json", "true"}}, "Print a muster.v1.Job on one line when a job ends.").command_line_only(),
      toggle("dry-run", {{"--dry-run", "true"}}, "Print the jobs as muster submit commands, and start nothing.")
          .command_line_only()};
}

}  // namespace

const CommandDoc& ensemble_doc() {
  static const FlagTable kTable =
      host_verb_flags(kEnsembleFlagsOfHvdrun, own_rows(), {{.completes = Completes::kFile}});
  static const CommandDoc kDoc = {
      .name = "muster ensemble",
      .summary = "run many jobs over the hosts of one allocation",
      .usage = "[options] FILE",
      .description =
          "Runs the jobs of a YAML file, as many at a time as the slots allow, and waits for all. All jobs share one "
          "agent on each host. Prints a line when a job ends; the output of its ranks goes to files. Meanwhile muster "
          "jobs, logs, top and kill show and end its jobs, with the --launcher that it prints at its start.\n\nThe "
          "file holds jobs: a list of name, command (a list of words), np, ranks_per_node, timeout, wdir, hosts, "
          "priority, env (NAME: VALUE), options (hvdrun's, as words) and sweep (KEY: a list, or a range such as 0-9). "
          "A sweep makes one job for each combination; {KEY} is replaced in name, command, env and options. Put what "
          "all jobs share under defaults. output names the folder for output.",
      .groups = {{FlagGroup::kRanks, "Slots"},
                 {FlagGroup::kHosts, "Hosts"},
                 {FlagGroup::kSsh, "Reaching the hosts"},
                 {FlagGroup::kOutput, "Output"},
                 {FlagGroup::kLife, "Start"},
                 {FlagGroup::kGeneral, "General"}},
      .table = &kTable,
      .notes =
          "Without -H and --hostfile: the hosts of the scheduler's job that surrounds this command, else this host.",
      .examples = {{"muster ensemble sweep.yaml", "inside an allocation: its hosts and slots"},
                   {"muster ensemble -H n1,n2 -N 4 --fail-fast sweep.yaml",
                    "four slots on each of two hosts; the first failure ends all"},
                   {"muster ensemble --nodes 0-3 --spare 1 --output results sweep.yaml",
                    "the first four hosts of the allocation, one of them in reserve"},
                   {"muster ensemble --dry-run sweep.yaml", "list the jobs"}},
      .exit_codes = {{"0", "every job ended with 0"},
                     {"1", "a job failed"},
                     {"2", "wrong command line, file or configuration; nothing was started"},
                     {"125", "the hosts could not be used"},
                     {"130", "interrupted, after all jobs were ended; 143 and 129 likewise"}},
      .most_used = {"hosts", "hostfile", "nodes", "ranks-per-node", "spare", "output", "fail-fast", "dry-run", "json"},
  };
  return kDoc;
}

ParsedEnsemble parse_ensemble_line(const std::vector<std::string>& arguments, const base::Environment& environment,
                                   const ParseContext& context) {
  ParsedEnsemble parsed;
  const HostVerb verb{
      .doc = ensemble_doc(),
      .take = [&parsed](const ParsedOption& option) -> base::Result<bool> {
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
                  words.empty() ? "the file is missing: name the YAML file of the jobs; see muster ensemble --help"
                                : "give one file, after all options"};
        }
        parsed.file = words.front();
        return base::ok_status();
      }};
  static_cast<HostVerbLine&>(parsed) = read_host_verb(verb, arguments, environment, context);
  return parsed;
}

}  // namespace muster::cli::ensemble
