// hvdrun's command line, environment and configuration: words in, a job and how to reach its hosts out. Hosts are not
// looked up, and no file but the configuration (cli/options/config_file.h) is read.
//
// An option given twice: the last one counts, as with horovodrun; --env adds up.
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

// --dry-run: say who would run where, and start nothing.
struct DryRunOptions {
  bool is_on = false;
  bool json = false;
  bool probe = false;                            // ask the hosts what they look like
  std::optional<model::NodeShape> assumed_node;  // what every host looks like; nullopt: known of this host only
  std::optional<std::string> host_pattern;       // NodeLook.names of hosts that nobody has named
  std::optional<int> host_count;                 // and how many; nullopt: as many as the ranks need
};

// How many hosts a user of torchrun expects.
struct NodeCount {
  int min = 1;
  int max = 1;
  std::string label;  // how errors begin
};

// torchrun's word for as many ranks as a host has devices.
struct DeviceCount {
  enum class Of { kGpus, kCpus, kGpusElseCpus };
  Of of = Of::kGpus;
  std::string label;  // how errors begin
};

// horovodrun's elastic jobs, as far as one that keeps its hosts can follow them.
struct ElasticOptions {
  std::string discovery_script;  // names the hosts; empty: none
  std::optional<long> slots_per_host;
  std::optional<long> min_ranks;
  std::optional<long> max_ranks;
};

// Whether hosts are looked at before the job starts.
enum class HealthCheck { kOff, kQuick, kFull };

// MXNet's parameter server.
struct DmlcOptions {
  model::DmlcCounts counts{};
  std::vector<model::HostSpec> server_hosts{};  // empty: where the workers are
};

struct HvdrunOptions {
  // placement.hosts is filled from -H. Left to the caller: hosts of `hostfile`; umask; workdir: empty without --wdir,
  // and a relative one is relative to the launcher's directory.
  model::JobSpec job;
  std::vector<std::string> env_files;     // --env-file: paths to be read, in order
  std::string hostfile;                   // path to be read; empty: none
  launcherd::BootstrapOptions bootstrap;  // backend, identity_file, default_port, agent_dir
  launcherd::LaunchOptions launch;        // agent_link, contain, verbose
  std::vector<std::string> notes;         // one line each, to be said before the job starts
  bool reports_bindings = false;          // a line for each rank
  bool quiet = false;                     // nothing of our own unless somebody must act
  model::LabelFormat label;               // before each line of the ranks
  std::string events_file;                // --json-events; empty: none
  std::string launcher;                   // --launcher: whose job it is, "auto" or an address; empty: our own
  DryRunOptions dry_run;
  std::optional<HostNumbers> host_numbers;  // --nodes: of the hosts, only these
  int spares = 0;                           // --spare: hosts that are left out
  HealthCheck health_check = HealthCheck::kOff;
  std::optional<NodeCount> nodes;      // more hosts are left out, fewer are an error
  std::optional<DeviceCount> devices;  // slots of hosts without explicit ones; the hosts have to be asked
  ElasticOptions elastic;
  std::optional<DmlcOptions>
      dmlc;  // --num-workers; its roles are made when the hosts are known (cli/options/dmlc_job.h)
};

struct ParsedHvdrun {
  // Set: the command line is answered by `text` alone; help and version on stdout with 0, a mistake on stderr with 2.
  std::optional<int> exit_code;
  std::string text;  // whole lines; mistakes begin with "hvdrun: "
  HvdrunOptions options;
};

// A command line that is answered by `text` alone.
ParsedHvdrun answer(int exit_code, std::string text);

struct ParseContext {
  std::string_view build_id;
  std::string system_config = "/etc/muster/config.yaml";  // need not exist
  std::string program_directory = {};                     // where muster_perf lies, for --self-test
  bool is_horovodrun = false;                             // called by that name: cli/options/horovodrun.h
};

// `arguments` without the program's name.
ParsedHvdrun parse_hvdrun(const std::vector<std::string>& arguments, const base::Environment& environment,
                          const ParseContext& context);

// --assume-node by the name of a template: its node, and names for made-up hosts. Reads the template's files.
base::Status assume_template_node(const Settings& settings, const base::Environment& environment,
                                  DryRunOptions& dry_run);

// What the settings say of the job; everything but its command, and what assume_template_node() adds.
base::Result<HvdrunOptions> read_options(const Settings& settings);

}  // namespace muster::cli::options
