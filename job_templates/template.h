// A job template as a value. It holds the parts that a site's job scripts share. load.h finds and reads templates.
// plan.h, script.h and shape.h convert them.
//
// Thread: any; plain values.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "job_templates/document.h"

namespace muster::job_templates {

inline constexpr long kMostNumber = 1'000'000'000;  // the limit of a kInt parameter

enum class Scheduler { kNone, kCobalt, kPbs, kSlurm, kFlux, kLsf };

// Returns the scheduler's name, such as "Cobalt" or "PBS". Empty for kNone.
std::string_view display_name(Scheduler scheduler);

enum class ParameterType { kString, kInt, kTime, kChoice, kBool };

struct Parameter {
  std::string name;  // small letters, digits, '-'
  ParameterType type = ParameterType::kString;
  std::optional<std::string> standard;  // the default, as a user would type it; valid for the type
  long min = 0;                         // only for kInt, like `max`
  long max = 0;
  std::vector<std::string> choices;  // kChoice
  std::string help;
  bool is_required = false;
};

// A text of a template, which may contain {parameters}, and its place.
struct Text {
  std::string text;
  Place place;
};

struct NamedText {
  std::string name;
  Text value;
};

struct Role {
  std::string name;
  std::optional<Text> ranks;  // nullopt if the role gets the rest; at most one role per template
  std::vector<NamedText> environment;
};

enum class GpuMaker { kNvidia, kAmd, kIntel };

// A description of a host. Zero means that the template gives no number.
struct NodeDescription {
  std::string names{};  // such as "nid{n:05}"
  int sockets = 0;
  int cores = 0;    // cores per socket
  int threads = 1;  // threads per core
  int numa = 1;     // NUMA nodes per socket
  std::vector<int> reserved_cores{};
  int gpus = 0;
  GpuMaker gpu_maker = GpuMaker::kNvidia;
  int gpu_tiles = 1;
  std::vector<std::vector<int>> gpu_cpus{};  // one list per GPU; empty if unknown
  std::vector<std::string> nics{};

  bool is_known() const { return sockets > 0; }
};

// Shell code that runs as it is written. It gets parameters as the variables PARAM_NAME.
struct Commands {
  std::vector<Text> job;   // runs once in the job
  std::vector<Text> node;  // runs once on every host
};

struct Template {
  std::string name;
  std::string origin;              // "built in", or the file
  std::vector<std::string> notes;  // for the user: which template hides which
  std::string help;
  Scheduler scheduler = Scheduler::kNone;
  std::string submit;  // empty means the scheduler's usual program
  std::string shell;   // "/bin/bash -l"
  std::vector<Parameter> parameters;
  std::vector<Text> directives;
  NodeDescription node;
  std::vector<NamedText> launch;  // names of options of hvdrun ("ranks-per-node"); "true" or "false" for switches
  std::vector<std::string> modules;
  std::vector<NamedText> environment;
  std::optional<Text> proxy;
  std::optional<Text> no_proxy;
  Commands pre;
  Commands post;
  std::vector<Role> roles;
  Piece merged;  // the tree from which all of this was read

  const Parameter* parameter(std::string_view name) const;  // nullptr if there is none
};

// Reads a merged tree whose parts have passed check_schema(). Reports mistakes that only the whole shows: a parameter
// without a type, a default out of its range, a text that names an unknown parameter.
base::Result<Template> read_template(Piece merged, const std::string& name);

}  // namespace muster::job_templates
