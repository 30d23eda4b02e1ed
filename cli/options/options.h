// Reads hvdrun's command line, environment and configuration into a job and the way to reach its hosts. It does not
// resolve hosts. It reads the configuration and job files (cli/options/config_file.h), a template's files, and no
// other.
// If an option is given twice, the last value counts, as with horovodrun. Values of --env add up.
// Example:
//
//   ParsedHvdrun parsed = parse_hvdrun({argv + 1, argv + argc}, environment, {.build_id = base::build_id()});
//   if (parsed.exit_code) …print parsed.text to stdout (0) or stderr, return *parsed.exit_code
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/env.h"
#include "base/status.h"
#include "cli/options/host_choice.h"
#include "cli/options/settings.h"
#include "launcherd/bootstrap/bootstrap.h"
#include "launcherd/run/job_runner.h"
#include "model/dmlc.h"
#include "model/job_spec.h"
#include "model/label_format.h"
#include "model/node_shape.h"

namespace muster::cli::inline options {

// --dry-run: shows which rank would run on which host, and starts nothing.
struct DryRunOptions {
  bool is_on = false;
  bool json = false;
  bool probe = false;  // ask the hosts for their cores and GPUs
  // The assumed shape of every host. nullopt means that only this host's shape is known.
  std::optional<model::NodeShape> assumed_node;
  // Pattern of names for made-up hosts, used if the user named none (NodeDescription.names of a template). nullopt if
  // no hosts are made up.
  std::optional<std::string> host_pattern;
  // Number of made-up hosts. nullopt means as many as the ranks need.
  std::optional<int> host_count;
};

// torchrun's --nnodes: the number of hosts that the user expects.
struct NodeCount {
  int min = 1;
  int max = 1;
  std::string label;  // the text with which errors begin
};

// torchrun's --nproc-per-node as a word: one rank for each device of a host.
struct DeviceCount {
  enum class Of { kGpus, kCpus, kGpusElseCpus };
  Of of = Of::kGpus;
  std::string label;  // the text with which errors begin
};

// horovodrun's options for elastic jobs. A job of Muster keeps its hosts, so it follows them only as far as it can.
struct ElasticOptions {
  std::string discovery_script;  // a script that prints the hosts; empty if none
  std::optional<long> slots_per_host;
  std::optional<long> min_ranks;
  std::optional<long> max_ranks;
};

// Tells whether hosts are checked before the job starts, and how thoroughly.
enum class HealthCheck { kOff, kQuick, kFull };

// The numbers and hosts of MXNet's parameter server.
struct DmlcOptions {
  model::DmlcCounts counts{};
  std::vector<model::HostSpec> server_hosts{};  // empty means the workers' hosts
};

struct HvdrunOptions {
  // placement.hosts holds the hosts of -H. The caller adds the hosts of `hostfile`, the umask and the directory.
  // job.workdir is empty without --wdir. A relative one is relative to the launcher's directory.
  model::JobSpec job;
  std::vector<std::string> env_files;     // --env-file: paths that the caller must read, in order
  std::string hostfile;                   // path that the caller must read; empty if none
  launcherd::BootstrapOptions bootstrap;  // backend, identity_file, default_port, agent_dir
  launcherd::LaunchOptions launch;        // agent_link, contain, verbose
  std::vector<std::string> notes;         // one line each; the caller prints them before the job starts
  bool reports_bindings = false;          // print the binding of each rank, a line each
  bool quiet = false;                     // hide Muster's own lines, except those that ask the user to act
  model::LabelFormat label;               // text before each line of the ranks
  std::string events_file;                // --json-events; empty if not given
  // --launcher: "auto", or the address of the launcherd that runs the job. Empty means that hvdrun runs it itself.
  std::string launcher;
  DryRunOptions dry_run;
  std::optional<HostNumbers> host_numbers;  // --nodes: use only these of the hosts
  int spares = 0;                           // --spare: the number of hosts to leave out
  HealthCheck health_check = HealthCheck::kOff;
  std::optional<NodeCount> nodes;  // surplus hosts are left out; too few are an error
  // Slots of hosts that have no explicit number. The caller must ask the hosts for their devices.
  std::optional<DeviceCount> devices;
  ElasticOptions elastic;
  // --num-workers and --num-servers. settle_dmlc() makes the roles once the hosts are known (cli/options/dmlc_job.h).
  std::optional<DmlcOptions> dmlc;
};

struct ParsedHvdrun {
  // If set, print `text` and exit with this code. Help and version go to stdout with 0, a mistake goes to stderr with
  // 2.
  std::optional<int> exit_code;
  std::string text;  // whole lines; mistakes begin with "hvdrun: "
  HvdrunOptions options;
};

// Makes the result for a command line that needs only `text` as its answer.
ParsedHvdrun answer(int exit_code, std::string text);

struct ParseContext {
  std::string_view build_id;
  std::string system_config = "/etc/muster/config.yaml";  // need not exist
  std::string program_directory = {};                     // the directory of muster_perf, for --self-test
  bool is_horovodrun = false;                             // hvdrun was called by that name: cli/options/horovodrun.h
};

// `arguments` excludes the program's name.
ParsedHvdrun parse_hvdrun(const std::vector<std::string>& arguments, const base::Environment& environment,
                          const ParseContext& context);

// Handles --assume-node with the name of a template: takes the template's node and its pattern for names of made-up
// hosts. Reads the template's files.
base::Status assume_template_node(const Settings& settings, const base::Environment& environment,
                                  DryRunOptions& dry_run);

// Reads the job from the settings. Its command and the results of assume_template_node() are not included.
base::Result<HvdrunOptions> read_options(const Settings& settings);

}  // namespace muster::cli::options
