#include "cli/ensemble_file.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "base/strings.h"
#include "base/yaml.h"

namespace muster::cli {
namespace {

using base::Code;
using base::error;
using base::Result;
using base::Status;
using base::YamlNode;
using Words = std::vector<std::string>;
using Values = std::vector<std::pair<std::string, std::string>>;  // of a combination, by key

constexpr long kLargestNumber = 1'000'000'000;
constexpr std::size_t kLongestName = 100;
constexpr std::string_view kNameCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._=,+-";

// What a job says, before its sweep is carried out.
struct JobDraft {
  std::string name;
  Words command;
  Words options;      // hvdrun's words
  Words environment;  // NAME=VALUE
  std::vector<std::pair<std::string, Words>> sweep;
};

class EnsembleReader {
 public:
  explicit EnsembleReader(const std::string& file_name) : file_name_(file_name) {}

  Result<Ensemble> read(const YamlNode& root) {
    const YamlNode* jobs = nullptr;
    JobDraft defaults;
    Ensemble ensemble;
    MUSTER_RETURN_IF_ERROR(for_keys(root, "the file", {"output", "defaults", "jobs"},
                                    [&](const std::string& key, const YamlNode& value) -> Status {
                                      if (key == "output") return read_text(value, key, ensemble.output);
                                      if (key == "defaults") return read_draft(value, true, defaults);
                                      jobs = &value;
                                      return base::ok_status();
                                    }));
    if (jobs == nullptr || jobs->kind != YamlNode::Kind::kList || jobs->items.empty()) {
      return fail(jobs == nullptr ? root : *jobs, "jobs must be a list of at least one job");
    }
    for (const YamlNode& item : jobs->items) {
      JobDraft draft = defaults;
      MUSTER_RETURN_IF_ERROR(read_draft(item, false, draft));
      if (draft.name.empty()) return fail(item, "the job has no name");
      if (draft.command.empty()) return fail(item, fmt::format("job {} has no command", draft.name));
      MUSTER_RETURN_IF_ERROR(add_combinations(item, draft, ensemble.jobs));
    }
    return ensemble;
  }

 private:
  Status fail(const YamlNode& at, std::string_view problem) const { return fail(at.line, at.column, problem); }
  Status fail(int line, int column, std::string_view problem) const {
    return error(Code::kInvalidArgument, "{}:{}:{}: {}", file_name_, line, column, problem);
  }

  template <typename Read>
  Status for_keys(const YamlNode& map, std::string_view what, const Words& known, const Read& read) const {
    if (map.kind != YamlNode::Kind::kMap) return fail(map, fmt::format("{} must hold keys", what));
    for (std::size_t i = 0; i < map.items.size(); ++i) {
      const YamlNode::Key& key = map.keys[i];
      if (std::ranges::find(known, key.text) == known.end()) {
        const auto nearest = base::nearest_word(key.text, known);
        return fail(key.line, key.column,
                    fmt::format("unknown key '{}'{}", base::printable(key.text),
                                nearest ? fmt::format("; did you mean {}?", *nearest)
                                        : fmt::format("; there are {}", base::join(known, ", "))));
      }
      MUSTER_RETURN_IF_ERROR(read(key.text, map.items[i]));
    }
    return base::ok_status();
  }

  Status read_text(const YamlNode& node, std::string_view key, std::string& into) const {
    if (node.kind != YamlNode::Kind::kScalar || node.text.empty() || node.text.find('\0') != std::string::npos) {
      return fail(node, fmt::format("{} takes one value", key));
    }
    into = node.text;
    return base::ok_status();
  }

  Status read_words(const YamlNode& node, std::string_view key, Words& into) const {
    if (node.kind != YamlNode::Kind::kList) {
      return fail(node, fmt::format("{} takes a list of words, as [python3, train.py]: no shell reads it", key));
    }
    into.clear();
    for (const YamlNode& item : node.items) {
      if (item.kind != YamlNode::Kind::kScalar || item.text.find('\0') != std::string::npos) {
        return fail(item, fmt::format("{} takes a list of words", key));
      }
      into.push_back(item.text);
    }
    return base::ok_status();
  }

  Status read_environment(const YamlNode& node, JobDraft& draft) const {
    if (node.kind != YamlNode::Kind::kMap) return fail(node, "env must hold NAME: VALUE");
    for (std::size_t i = 0; i < node.items.size(); ++i) {
      const YamlNode& value = node.items[i];
      if (value.kind != YamlNode::Kind::kScalar && value.kind != YamlNode::Kind::kNull) {
        return fail(value, fmt::format("env: {} takes one value", base::printable(node.keys[i].text)));
      }
      draft.environment.push_back(node.keys[i].text + "=" + value.text);
    }
    return base::ok_status();
  }

  // "0-3" is 0, 1, 2, 3.
  static std::optional<Words> range_of(std::string_view text) {
    const auto dash = text.find('-');
    if (dash == std::string_view::npos) return std::nullopt;
    const auto first = base::parse_decimal(text.substr(0, dash), kLargestNumber);
    const auto last = base::parse_decimal(text.substr(dash + 1), kLargestNumber);
    if (!first || !last || *last < *first || *last - *first >= static_cast<long>(kMostEnsembleJobs)) {
      return std::nullopt;
    }
    Words values;
    for (long value = *first; value <= *last; ++value) values.push_back(std::to_string(value));
    return values;
  }

  Status read_sweep(const YamlNode& node, JobDraft& draft) const {
    if (node.kind != YamlNode::Kind::kMap) return fail(node, "sweep must hold KEY: [values]");
    for (std::size_t i = 0; i < node.items.size(); ++i) {
      const YamlNode& value = node.items[i];
      Words values;
      if (value.kind == YamlNode::Kind::kScalar) {
        const auto range = range_of(value.text);
        if (!range) return fail(value, "a sweep takes a list of values, or a range of numbers such as 0-9");
        values = *range;
      } else {
        MUSTER_RETURN_IF_ERROR(read_words(value, "sweep." + node.keys[i].text, values));
        if (values.empty()) return fail(value, "a sweep takes at least one value");
      }
      draft.sweep.emplace_back(node.keys[i].text, std::move(values));
    }
    return base::ok_status();
  }

  Status read_draft(const YamlNode& node, bool is_default, JobDraft& draft) const {
    static const std::map<std::string, std::string, std::less<>> kOptions = {
        {"np", "-np"},      {"ranks_per_node", "-N"},   {"timeout", "--timeout"},
        {"wdir", "--wdir"}, {"priority", "--priority"}, {"hosts", "-H"}};
    Words known = {"command", "env", "options"};
    for (const auto& [key, option] : kOptions) known.push_back(key);
    if (!is_default) known.insert(known.end(), {"name", "sweep"});
    const auto read = [&](const std::string& key, const YamlNode& value) -> Status {
      if (key == "name") return read_text(value, key, draft.name);
      if (key == "command") return read_words(value, key, draft.command);
      if (key == "env") return read_environment(value, draft);
      if (key == "sweep") return read_sweep(value, draft);
      if (key == "options") {
        Words words;
        MUSTER_RETURN_IF_ERROR(read_words(value, key, words));
        draft.options.insert(draft.options.end(), words.begin(), words.end());
        return base::ok_status();
      }
      std::string text;
      MUSTER_RETURN_IF_ERROR(read_text(value, key, text));
      draft.options.insert(draft.options.end(), {kOptions.find(key)->second, text});  // over those of defaults
      return base::ok_status();
    };
    return for_keys(node, is_default ? "defaults" : "a job", known, read);
  }

  static std::string filled(std::string_view text, const Values& values) {
    std::string result;
    while (!text.empty()) {
      const auto hit =
          std::ranges::find_if(values, [&](const auto& value) { return text.starts_with("{" + value.first + "}"); });
      if (hit == values.end()) {
        result += text.front();
        text.remove_prefix(1);
      } else {
        result += hit->second;
        text.remove_prefix(hit->first.size() + 2);
      }
    }
    return result;
  }

  Status add_job(const YamlNode& at, const JobDraft& draft, const Values& values, std::vector<EnsembleJob>& jobs) {
    EnsembleJob job{.name = filled(draft.name, values),
                    .arguments = {},
                    .where = fmt::format("{}:{}:{}", file_name_, at.line, at.column)};
    const bool is_clean = !job.name.empty() && job.name.find_first_not_of(kNameCharacters) == std::string::npos &&
                          job.name.size() <= kLongestName && job.name.front() != '.' && job.name.front() != '-';
    if (!is_clean) {
      return fail(at, fmt::format("'{}' cannot name a job: letters, digits and ._=,+- make a name, at most {} of them",
                                  base::printable(job.name.substr(0, kLongestName)), kLongestName));
    }
    if (!names_.insert(job.name).second) {
      return fail(at, fmt::format("there are two jobs {}: put a key of the sweep into the name, as {}-{{seed}}",
                                  job.name, job.name));
    }
    if (jobs.size() >= kMostEnsembleJobs) return fail(at, fmt::format("more than {} jobs", kMostEnsembleJobs));
    job.arguments = {"--name", job.name, "--on-launcher-loss", "kill"};
    for (const std::string& word : draft.options) job.arguments.push_back(filled(word, values));
    for (const std::string& variable : draft.environment) {
      job.arguments.insert(job.arguments.end(), {"--env", filled(variable, values)});
    }
    job.arguments.emplace_back("--");
    for (const std::string& word : draft.command) job.arguments.push_back(filled(word, values));
    jobs.push_back(std::move(job));
    return base::ok_status();
  }

  // The last key of the sweep changes fastest.
  Status add_combinations(const YamlNode& at, const JobDraft& draft, std::vector<EnsembleJob>& jobs) {
    std::vector<std::size_t> digits(draft.sweep.size(), 0);
    while (true) {
      Values values;
      for (std::size_t i = 0; i < digits.size(); ++i) {
        values.emplace_back(draft.sweep[i].first, draft.sweep[i].second[digits[i]]);
      }
      MUSTER_RETURN_IF_ERROR(add_job(at, draft, values, jobs));
      std::size_t place = digits.size();
      while (place > 0 && ++digits[place - 1] == draft.sweep[place - 1].second.size()) digits[--place] = 0;
      if (place == 0) return base::ok_status();
    }
  }

  const std::string& file_name_;
  std::set<std::string> names_;
};

}  // namespace

Result<Ensemble> parse_ensemble(std::string_view content, const std::string& file_name) {
  MUSTER_ASSIGN_OR_RETURN(const YamlNode root, base::parse_yaml(content, file_name));
  return EnsembleReader(file_name).read(root);
}

}  // namespace muster::cli
