// A job template: what a site's job scripts have in common. Values only; how they are read is in job_templates/load.h,
// what they become in plan.h, script.h and shape.h.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "job_templates/document.h"

namespace muster::job_templates {

inline constexpr long kMostNumber = 1'000'000'000;  // of a parameter of type kInt

enum class Scheduler { kNone, kCobalt, kPbs, kSlurm, kFlux, kLsf };

// "Cobalt", "PBS"; empty for kNone.
std::string_view display_name(Scheduler scheduler);

enum class ParameterType { kString, kInt, kTime, kChoice, kBool };

struct Parameter {
  std::string name;  // small letters, digits, '-'
  ParameterType type = ParameterType::kString;
  std::optional<std::string> standard;  // as it would be typed; valid for the type
  long min = 0;                         // kInt
  long max = 0;
  std::vector<std::string> choices;  // kChoice
  std::string help;
  bool is_required = false;
};

// Text of a template with {parameters} in it, and where it stands.
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
  std::optional<Text> ranks;  // none: the rest; at most one role of a template
  std::vector<NamedText> environment;
};

enum class GpuMaker { kNvidia, kAmd, kIntel };

// What a host looks like. Zeros: the template does not say.
struct NodeLook {
  std::string names{};  // "nid{n:05}"
  int sockets = 0;
  int cores = 0;    // of a socket
  int threads = 1;  // of a core
  int numa = 1;     // NUMA nodes of a socket
  std::vector<int> reserved_cores{};
  int gpus = 0;
  GpuMaker gpu_maker = GpuMaker::kNvidia;
  int gpu_tiles = 1;
  std::vector<std::vector<int>> gpu_cpus{};  // one a GPU; empty: not known
  std::vector<std::string> nics{};

  bool is_known() const { return sockets > 0; }
};

// Shell code, run as it is written: parameters reach it as the variables PARAM_NAME.
struct Commands {
  std::vector<Text> job;   // once
  std::vector<Text> node;  // once on every host
};

struct Template {
  std::string name;
  std::string origin;              // "built in", or the file
  std::vector<std::string> notes;  // to be said: which template hides which
  std::string help;
  Scheduler scheduler = Scheduler::kNone;
  std::string submit;  // empty: the scheduler's usual program
  std::string shell;   // "/bin/bash -l"
  std::vector<Parameter> parameters;
  std::vector<Text> directives;
  NodeLook node;
  std::vector<NamedText> launch;  // by hvdrun's options: "ranks-per-node"; "true" or "false" for switches
  std::vector<std::string> modules;
  std::vector<NamedText> environment;
  std::optional<Text> proxy;
  std::optional<Text> no_proxy;
  Commands pre;
  Commands post;
  std::vector<Role> roles;
  Piece merged;  // what all of this was read from

  const Parameter* parameter(std::string_view name) const;  // nullptr: there is none
};

// Reads a merged tree whose parts have passed check_schema(). Mistakes that show only when all parts are together: a
// parameter without a type, a default out of its range, text that names an unknown parameter.
base::Result<Template> read_template(Piece merged, const std::string& name);

}  // namespace muster::job_templates
