#include "cli/options.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "base/strings.h"
#include "cli/flags.h"
#include "cli/help.h"

namespace muster::cli {
namespace {

using base::Code;
using base::error;
using base::Result;
using base::Status;

// The launcher's half of the command line, rewritten for CLI11, which refuses single-dash long names and takes a value
// with a dash for an option: every word is "--canonical-name" or "--canonical-name=value".
struct SplitLine {
  std::vector<std::string> launcher;
  std::vector<std::string> command;
  bool wants_help = false;
  bool wants_version = false;
};

Status unknown_option(std::string_view word) {
  const auto nearest = base::nearest_word(word, all_spellings());
  return error(Code::kInvalidArgument, "unknown option {}{} (hvdrun --help lists all options)", base::printable(word),
               nearest ? fmt::format(", did you mean {}?", *nearest) : "");
}

// An option and the value that is attached to its word: --timeout=5m, -np=4, -p2222.
struct OptionWord {
  const Flag* flag = nullptr;
  std::string spelling;
  std::optional<std::string> attached;
};

Result<OptionWord> read_option(const std::string& word) {
  if (const Flag* flag = find_flag(word)) return OptionWord{flag, word, std::nullopt};
  const auto equals = word.find('=');
  if (equals != std::string::npos) {
    const std::string spelling = word.substr(0, equals);
    if (const Flag* flag = find_flag(spelling)) return OptionWord{flag, spelling, word.substr(equals + 1)};
    return unknown_option(spelling);
  }
  // Numbers may touch their letter (-p2222, -n4); other text that does is rather a long name of another launcher.
  const std::string letter = word.substr(0, 2);
  const Flag* flag = word.starts_with("--") ? nullptr : find_flag(letter);
  const bool is_number = base::parse_decimal(std::string_view(word).substr(2), 999'999'999).has_value();
  if (flag != nullptr && flag->values == 1 && is_number) return OptionWord{flag, letter, word.substr(2)};
  return unknown_option(word);
}

Status not_in_this_version(const OptionWord& option) {
  return error(Code::kUnimplemented,
               "horovodrun's option {} is known but does nothing in this version of hvdrun: leave it out",
               option.spelling);
}

// Takes the option at `words[at]` and its values; returns the index after them.
Result<std::size_t> take_option(const std::vector<std::string>& words, std::size_t at, SplitLine& line) {
  MUSTER_ASSIGN_OR_RETURN(const OptionWord option, read_option(words[at]));
  if (!option.flag->is_active) return not_in_this_version(option);
  if (option.flag->values == 0) {
    if (option.attached) return error(Code::kInvalidArgument, "{} takes no value", option.spelling);
    line.wants_help = line.wants_help || option.flag->name == "help";
    line.wants_version = line.wants_version || option.flag->name == "version";
    line.launcher.push_back(fmt::format("--{}", option.flag->name));
    return at + 1;
  }
  if (!option.attached && at + 1 == words.size()) {
    return error(Code::kInvalidArgument, "{} needs a value: {} {}", option.spelling, option.spelling,
                 option.flag->value_name);
  }
  const std::string& value = option.attached ? *option.attached : words[at + 1];
  if (value.empty()) return error(Code::kInvalidArgument, "{} needs a value that is not empty", option.spelling);
  line.launcher.push_back(fmt::format("--{}={}", option.flag->name, value));
  return at + (option.attached ? 1 : 2);
}

Result<SplitLine> split_command(const std::vector<std::string>& words) {
  SplitLine line;
  std::size_t at = 0;
  while (at < words.size() && words[at].size() > 1 && words[at].front() == '-' && words[at] != "--") {
    MUSTER_ASSIGN_OR_RETURN(at, take_option(words, at, line));
    if (line.wants_help || line.wants_version) return line;
  }
  if (at < words.size() && words[at] == "--") ++at;
  line.command.assign(words.begin() + static_cast<std::ptrdiff_t>(at), words.end());
  return line;
}

// Values, as CLI11 hands them to a callback; a mistake becomes the exception that CLI11 carries out of parse().
class ValueReader {
 public:
  explicit ValueReader(CLI::App& app) : app_(app) {}

  void flag(const char* name, bool& into) {
    app_.add_flag_callback(fmt::format("--{}", name), [&into] { into = true; });
  }

  void text(const char* name, std::string& into) {
    value(name, [&into](const std::string& given) {
      into = given;
      return base::ok_status();
    });
  }

  void number(const char* name, int min, int max, int& into) {
    value(name, [=, &into](const std::string& given) -> Status {
      const auto read = base::parse_decimal(given, max);
      if (!read || *read < min) {
        return error(Code::kInvalidArgument, "{} must be a number from {} to {}, not '{}'", shown(name), min, max,
                     base::printable(given));
      }
      into = static_cast<int>(*read);
      return base::ok_status();
    });
  }

  template <typename T>
  void duration(const char* name, std::chrono::milliseconds min, T& into) {
    value(name, [=, &into](const std::string& given) -> Status {
      const auto read = parse_duration(given);
      if (!read.ok()) return read.status().with_context(shown(name));
      if (*read < min) {
        return error(Code::kInvalidArgument, "{} must be more than no time at all, not '{}'", shown(name), given);
      }
      into = *read;
      return base::ok_status();
    });
  }

  template <typename T>
  void choice(const char* name, std::vector<std::pair<std::string, T>> choices, T& into) {
    value(name, [=, &into, choices = std::move(choices)](const std::string& given) -> Status {
      const auto found = std::ranges::find(choices, given, &std::pair<std::string, T>::first);
      if (found == choices.end()) {
        std::vector<std::string> words;
        for (const auto& [word, meaning] : choices) words.push_back(word);
        return error(Code::kInvalidArgument, "{} must be one of {}, not '{}'", shown(name), base::join(words, ", "),
                     base::printable(given));
      }
      into = found->second;
      return base::ok_status();
    });
  }

  void word(const char* name, const std::vector<std::string>& words, std::string& into) {
    std::vector<std::pair<std::string, std::string>> choices;
    for (const std::string& text : words) choices.emplace_back(text, text);
    choice(name, std::move(choices), into);
  }

  CLI::Option* value(const char* name, std::function<Status(const std::string&)> read) {
    CLI::Option* option = app_.add_option_function<std::string>(fmt::format("--{}", name),
                                                                [read = std::move(read)](const std::string& given) {
                                                                  if (const Status status = read(given); !status.ok())
                                                                    throw CLI::ValidationError(status.message());
                                                                });
    return option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }

  // The spelling by which people know the option.
  static std::string shown(const char* name) { return std::string(find_flag(fmt::format("--{}", name))->spellings[0]); }

 private:
  CLI::App& app_;
};

Status check_variable(const std::string& named) {
  const std::string name = named.substr(0, named.find('='));
  const bool is_clean = std::ranges::none_of(name, [](unsigned char c) { return c <= ' ' || c == 0x7f; });
  if (!name.empty() && is_clean) return base::ok_status();
  return error(Code::kInvalidArgument,
               "--env: '{}' is not the name of an environment variable: write NAME or NAME=VALUE",
               base::printable(name));
}

void add_ranks_and_hosts(CLI::App& app, ValueReader& read, HvdrunOptions& options) {
  model::PlacementRequest& placement = options.job.placement;
  read.number("num-proc", 1, model::kMaxRanks, placement.np);
  read.number("ranks-per-node", 1, model::kMaxSlotsPerHost, placement.ranks_per_node);
  read.flag("oversubscribe", placement.oversubscribe);
  read.value("hosts", [&placement](const std::string& given) -> Status {
    MUSTER_ASSIGN_OR_RETURN(placement.hosts, model::parse_host_list(given, "-H"));
    return base::ok_status();
  });
  read.text("hostfile", options.hostfile);
  app.get_option("--hosts")->excludes(app.get_option("--hostfile"));
  read.number("ssh-port", 1, 65535, options.bootstrap.default_port);
  read.text("ssh-identity-file", options.bootstrap.identity_file);
  using launcherd::SshBackend;
  read.choice<SshBackend>("ssh-backend",
                          {{"auto", SshBackend::kAuto}, {"libssh", SshBackend::kLibssh}, {"ssh", SshBackend::kSsh}},
                          options.bootstrap.backend);
  read.word("agent-link", {"auto", "ssh", "dial"}, options.launch.agent_link);
  read.text("agent-dir", options.bootstrap.agent_dir);
}

void add_program(CLI::App& app, ValueReader& read, HvdrunOptions& options) {
  model::JobSpec& job = options.job;
  app.add_option_function<std::string>("--env", [](const std::string&) {})
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  read.flag("env-none", job.environment.only_named);
  read.text("wdir", job.workdir);
  read.text("output-filename", job.output_dir);
  read.flag("prefix-output-with-timestamp", job.prefix_timestamp);
  read.flag("verbose", options.launch.verbose);
  using std::chrono::milliseconds;
  read.duration("start-timeout", milliseconds(1), job.start_timeout);
  read.duration("timeout", milliseconds(1), job.timeout);
  read.duration("kill-grace", milliseconds(0), job.kill_grace);
  read.word("contain", {"auto", "cgroup", "pidns", "subreaper"}, options.launch.contain);
  using model::OnExit;
  read.choice<OnExit>("on-exit",
                      {{"nonzero-kill", OnExit::kNonzeroKill}, {"any-kill", OnExit::kAnyKill}, {"wait", OnExit::kWait}},
                      job.on_exit);
}

Status read_environment(const base::Environment& environment, HvdrunOptions& options) {
  const auto given = environment.get("HOROVOD_START_TIMEOUT");
  if (!given || given->empty()) return base::ok_status();
  const auto read = parse_duration(*given);
  if (!read.ok()) return read.status().with_context("HOROVOD_START_TIMEOUT");
  if (read->count() == 0)
    return error(Code::kInvalidArgument, "HOROVOD_START_TIMEOUT must be more than no time at all");
  options.job.start_timeout = *read;
  return base::ok_status();
}

Result<HvdrunOptions> read_options(SplitLine line, const base::Environment& environment) {
  HvdrunOptions options;
  MUSTER_RETURN_IF_ERROR(read_environment(environment, options));
  CLI::App app;
  app.set_help_flag();
  ValueReader read(app);
  add_ranks_and_hosts(app, read, options);
  add_program(app, read, options);
  std::ranges::reverse(line.launcher);  // as CLI11's vector form wants it
  try {
    app.parse(std::move(line.launcher));
    options.job.environment.named = app.get_option("--env")->results();
  } catch (const CLI::ExcludesError&) {
    return error(Code::kInvalidArgument, "-H and --hostfile exclude each other: name the hosts in one place");
  } catch (const CLI::ValidationError& problem) {
    return Status(Code::kInvalidArgument, std::string(problem.what()));
  } catch (const CLI::Error& problem) {
    return error(Code::kInvalidArgument, "the command line cannot be read: {}", problem.what());
  }
  for (const std::string& named : options.job.environment.named) MUSTER_RETURN_IF_ERROR(check_variable(named));
  if (line.command.empty()) {
    return error(Code::kInvalidArgument,
                 "no command is given: say what to run, as in hvdrun -np 4 python3 train.py; hvdrun --help tells more");
  }
  if (line.command.front().empty()) return error(Code::kInvalidArgument, "the command is an empty word");
  options.job.command = std::move(line.command);
  return options;
}

ParsedHvdrun answer(int exit_code, std::string text) {
  ParsedHvdrun parsed;
  parsed.exit_code = exit_code;
  parsed.text = std::move(text);
  return parsed;
}

ParsedHvdrun mistake(const Status& status) {
  return answer(2, fmt::format("hvdrun: {}\n", status.message()));
}

}  // namespace

ParsedHvdrun parse_hvdrun(const std::vector<std::string>& arguments, const base::Environment& environment,
                          std::string_view build_id) {
  Result<SplitLine> line = split_command(arguments);
  if (!line.ok()) return mistake(line.status());
  if (line->wants_help) return answer(0, hvdrun_help());
  if (line->wants_version) return answer(0, hvdrun_version(build_id));
  Result<HvdrunOptions> options = read_options(std::move(line).value(), environment);
  if (!options.ok()) return mistake(options.status());
  ParsedHvdrun parsed;
  parsed.options = std::move(options).value();
  return parsed;
}

Result<std::chrono::milliseconds> parse_duration(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, long>, 4> kUnits = {
      {{"ms", 1}, {"s", 1'000}, {"m", 60'000}, {"h", 3'600'000}}};
  constexpr long kMost = 10L * 366 * 24 * 3'600'000;
  const auto fail = [&] {
    return error(Code::kInvalidArgument, "'{}' is not a time: write it as 30, 30s, 5m, 1.5h or 500ms",
                 base::printable(text));
  };
  const auto end = std::min(text.find_first_not_of("0123456789."), text.size());
  const std::string_view number = text.substr(0, end);
  const std::string_view unit = end == text.size() ? "s" : text.substr(end);
  const auto* found = std::ranges::find(kUnits, unit, [](const auto& known) { return known.first; });
  if (found == kUnits.end()) return fail();
  const auto dot = number.find('.');
  const auto whole = base::parse_decimal(number.substr(0, dot), kMost);
  if (!whole) return fail();
  long total = *whole;
  if (total > kMost / found->second) return fail();
  total *= found->second;
  if (dot != std::string_view::npos) {
    const std::string_view digits = number.substr(dot + 1, 12);
    const auto fraction = base::parse_decimal(digits, 999'999'999'999);
    if (!fraction || number.find('.', dot + 1) != std::string_view::npos) return fail();
    const double part = static_cast<double>(*fraction) / std::pow(10.0, static_cast<double>(digits.size()));
    total += static_cast<long>(std::ceil(part * static_cast<double>(found->second) - 1e-6));
  }
  return std::chrono::milliseconds(total);
}

}  // namespace muster::cli
