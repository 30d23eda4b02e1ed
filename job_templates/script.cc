// All of script.h. Read ScriptWriter::write() first: it calls one write_ function for each part of the script, from top
// to bottom. The functions before the class quote texts for shells and schedulers.
#include "job_templates/script.h"

#include <algorithm>
#include <cctype>
#include <iterator>

#include "base/strings.h"
#include "model/rank_env.h"

namespace muster::job_templates {
namespace {

using base::Result;
using base::Status;
using Words = std::vector<std::string>;

// The characters that are safe in a scheduler's directive. No shell reads that line, so nothing in it can be quoted.
constexpr std::string_view kInDirectives = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._,:=+@%/~^-";

Result<std::string> use_in_directive(std::string_view parameter, std::string_view value) {
  if (value.find_first_not_of(kInDirectives) == std::string_view::npos && !value.starts_with('-') && !value.empty()) {
    return std::string(value);
  }
  return base::invalid_argument(
      "--{} '{}' cannot stand in a line for the scheduler, where nothing is quoted: use letters, digits and "
      "._,:=+@%/~^-, with a letter, a digit or a '.' or '/' first",
      parameter, base::printable(value));
}

// Returns the name of the parameter's variable: PARAM_RANKS_PER_NODE for "ranks-per-node".
std::string variable_of(const Parameter& parameter) {
  std::string name = "PARAM_" + parameter.name;
  for (char& c : name) c = c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

bool names_variable(const Commands& commands, const std::string& variable) {
  return std::ranges::any_of(std::vector{&commands.job, &commands.node}, [&](const auto* list) {
    return std::ranges::any_of(*list, [&](const Text& text) { return text.text.find(variable) != std::string::npos; });
  });
}

// Returns true if flux batch would read a comment with this line as an option: "flux: -N 100", also behind other signs.
bool is_for_flux(std::string_view line) {
  const auto is_word = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
  std::string start(std::ranges::find_if(line, is_word), line.end());
  start.resize(std::min(start.size(), std::size_t{5}));
  std::ranges::transform(start, start.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return start == "flux:";
}

// Returns the text as the lines of a comment. Bytes that a terminal cannot show become \xNN.
std::string comment(std::string_view text) {
  std::string result;
  for (const std::string_view line : base::split(text, '\n')) {
    const std::string shown = base::printable(base::trim(line));
    result += shown.empty() ? "#\n" : fmt::format("# {}{}\n", is_for_flux(shown) ? "Help: " : "", shown);
  }
  return result;
}

std::string joined(const Words& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + base::shell_quote(word);
  return text;
}

// Returns a comment that tells shellcheck to accept $ and ` in quotes. Empty if no word contains them.
std::string quoting_remark(const Words& words) {
  const bool has_dollar =
      std::ranges::any_of(words, [](const std::string& word) { return word.find_first_of("$`") != std::string::npos; });
  return has_dollar ? "# shellcheck disable=SC2016  # what is in quotes is meant as it stands\n" : "";
}

std::string assign(std::string_view name, const std::string& value) {
  return fmt::format("{}export {}={}\n", quoting_remark({value}), name, base::shell_quote(value));
}

class ScriptWriter {
 public:
  ScriptWriter(const Values& values, const ScriptRequest& request, LaunchPlan plan)
      : values_(values), template_(values.of()), request_(request), plan_(std::move(plan)) {}

  Result<std::string> write() {
    text_ = fmt::format("#!{}\n", template_.shell);
    MUSTER_ASSIGN_OR_RETURN(const Words directives, render_directives(values_));
    for (const std::string& line : directives) text_ += line + "\n";
    write_head();
    write_directory();
    write_modules();
    write_environment();
    write_pre();
    write_run();
    return std::move(text_);
  }

 private:
  void write_head() {
    text_ += "#\n" + comment(template_.help);
    text_ += fmt::format("# Rendered by muster from the template {} ({}) with:\n", base::printable(template_.name),
                         base::printable(template_.origin));
    for (const Parameter& parameter : template_.parameters) {
      const auto value = values_.get(parameter.name);
      if (!value) continue;
      text_ += fmt::format("#   {} = {}{}\n", parameter.name, base::printable(*value),
                           values_.is_given(parameter.name) ? "" : "  (default)");
    }
    if (template_.scheduler == Scheduler::kCobalt) {
      text_ +=
          "# Cobalt runs this file itself, when the job starts: make it executable, and leave it as it is until "
          "then.\n";
    }
    text_ += fmt::format("\nhvdrun={}\n", base::shell_quote(request_.hvdrun));
  }

  void write_directory() {
    if (template_.scheduler != Scheduler::kPbs) return;
    text_ += "\n# PBS starts scripts at home.\ncd \"${PBS_O_WORKDIR:-.}\" || exit 125\n";
  }

  void write_modules() {
    if (template_.modules.empty()) return;
    text_ += "\n# Software of the site.\n";
    for (const std::string& module : template_.modules) {
      constexpr std::string_view kUse = "use ";
      text_ += module.starts_with(kUse) ? fmt::format("module use {}\n", base::shell_quote(module.substr(kUse.size())))
                                        : fmt::format("module load {}\n", base::shell_quote(module));
    }
  }

  void write_environment() {
    if (plan_.environment.empty()) return;
    text_ += "\n# Variables of the ranks.\n";
    for (const auto& [name, value] : plan_.environment) {
      text_ += assign(name, value);
    }
  }

  void write_pre() {
    std::string variables;
    for (const Parameter& parameter : template_.parameters) {
      const std::string name = variable_of(parameter);
      if (!names_variable(template_.pre, name) && !names_variable(template_.post, name)) continue;
      variables += assign(name, values_.get(parameter.name).value_or(""));
    }
    if (!variables.empty()) text_ += "\n# Parameters, for the commands before and after the job.\n" + variables;
    if (!template_.pre.job.empty()) {
      text_ += "\n# Before the job.\nset -e\n" + lines(template_.pre.job) + "set +e\n";
    }
    if (!template_.pre.node.empty()) {
      text_ += "\n# Before the job, once on every host.\n" + on_every_host(template_.pre.node) + " || exit\n";
    }
  }

  void write_run() {
    Words words = plan_.prefix;
    words.insert(words.end(), request_.command.begin(), request_.command.end());
    std::string run = "\"$hvdrun\" \\\n";
    for (const LaunchOption& option : plan_.options) run += fmt::format("  {} \\\n", joined(option.words()));
    for (const Words& option : env_options()) run += fmt::format("  {} \\\n", joined(option));
    for (const Words& option : request_.extra) run += fmt::format("  {} \\\n", joined(option));
    run += "  -- " + joined(words);
    text_ += "\n# The job.\n";
    if (template_.post.job.empty() && template_.post.node.empty()) {
      text_ += quoting_remark(words) + "exec " + run + "\n";
      return;
    }
    text_ += "# Forwards the scheduler's SIGTERM at the time limit to the job, so that the job ends in order.\n";
    text_ += "early=\nsignalled=\njob=\n";
    text_ += "trap 'if [ -n \"$job\" ]; then signalled=1; kill -TERM \"$job\"; else early=1; fi' TERM\n";
    text_ += quoting_remark(words) + run + " &\njob=$!\n[ -z \"$early\" ] || kill -TERM \"$job\"\n";
    text_ += "wait \"$job\"\nstatus=$?\n";
    text_ += "while [ -n \"$signalled\" ]; do\n  signalled=\n  wait \"$job\"\n  status=$?\ndone\ntrap '' TERM\n";
    write_post();
    text_ += "\n# The exit code is the job's.\nexit \"$status\"\n";
  }

  // hvdrun sends exported variables by itself, except those that it sends only if --env names them.
  std::vector<Words> env_options() const {
    const bool only_named = std::ranges::find(request_.extra, Words{"--env-none"}) != request_.extra.end();
    std::vector<Words> options;
    for (const auto& [name, value] : plan_.environment) {
      const bool is_kept_back = model::is_never_exported(name, false);
      if (only_named || is_kept_back) options.push_back({"--env", name});
    }
    return options;
  }

  void write_post() {
    if (!template_.post.node.empty()) {
      text_ += "\n# After the job, once on every host.\n" + on_every_host(template_.post.node) +
               " ||\n  echo \"the commands after the job failed on a host\" >&2\n";
    }
    if (!template_.post.job.empty()) text_ += "\n# After the job.\n" + lines(template_.post.job);
  }

  static std::string lines(const std::vector<Text>& commands) {
    std::string text;
    for (const Text& command : commands) text += command.text + (command.text.ends_with('\n') ? "" : "\n");
    return text;
  }

  std::string on_every_host(const std::vector<Text>& commands) const {
    // A host for which the user gave slots has several ranks. Only the first one runs the commands.
    const std::string code = "\n[ \"$MUSTER_LOCAL_RANK\" = 0 ] || exit 0\nset -e\n" + lines(commands);
    std::string text = "# shellcheck disable=SC2016  # what is in quotes is meant as it stands\n";
    text += "\"$hvdrun\" -N 1 --bind-to none --gpu-bind none \\\n";
    for (const LaunchOption& option : plan_.reach()) text += fmt::format("  {} \\\n", joined(option.words()));
    for (const Words& option : request_.reach) text += fmt::format("  {} \\\n", joined(option));
    return text + fmt::format("  -- sh -c {}", base::shell_quote(code));
  }

  const Values& values_;
  const Template& template_;
  const ScriptRequest& request_;
  LaunchPlan plan_;
  std::string text_;
};

}  // namespace

std::string_view directive_prefix(Scheduler scheduler) {
  constexpr std::string_view kPrefixes[] = {"", "#COBALT", "#PBS", "#SBATCH", "#flux:", "#BSUB"};
  return kPrefixes[static_cast<std::size_t>(scheduler)];
}

Result<std::vector<std::string>> render_directives(const Values& values) {
  Words lines;
  for (const Text& directive : values.of().directives) {
    MUSTER_ASSIGN_OR_RETURN(const auto text, fill(directive, values, {.use = use_in_directive}));
    if (text) lines.push_back(fmt::format("{} {}", directive_prefix(values.of().scheduler), *text));
  }
  return lines;
}

Result<std::string> render_script(const Values& values, const ScriptRequest& request) {
  MUSTER_RETURN_IF_ERROR(values.check_complete());
  MUSTER_ASSIGN_OR_RETURN(LaunchPlan plan, plan_launch(values));
  for (const std::string_view option : request.left_out) plan.leave_out(option);
  return ScriptWriter(values, request, std::move(plan)).write();
}

}  // namespace muster::job_templates
