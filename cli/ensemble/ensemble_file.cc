// This file reads the YAML (EnsembleReader) and makes one job of each combination of a sweep.
// Read EnsembleReader::read() first, then read_draft(), add_combinations() and add_job().
#include "cli/ensemble/ensemble_file.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "base/strings.h"
#include "cli/help/base_names.h"
#include "cli/options/yaml_values.h"

namespace muster::cli::inline ensemble {
namespace {

using base::YamlNode;
using Words = std::vector<std::string>;
using Values = std::vector<std::pair<std::string, std::string>>;  // the values of one combination, each with its key

constexpr long kLargestNumber = 1'000'000'000;
constexpr std::size_t kLongestName = 100;
constexpr std::string_view kNameCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._=,+-";

// A job as the file describes it, before its sweep is expanded.
struct JobDraft {
  std::string name;
  Words command;
  Words options;      // hvdrun's options as words
  Words environment;  // NAME=VALUE
  std::vector<std::pair<std::string, Words>> sweep;
};

class EnsembleReader {
 public:
  explicit EnsembleReader(const std::string& file_name) : values_(file_name) {}

  Result<Ensemble> read(const YamlNode& root) {
    const YamlNode* jobs = nullptr;
    JobDraft defaults;
    Ensemble ensemble;
    MUSTER_RETURN_IF_ERROR(values_.keys(root, "the file", {"output", "defaults", "jobs"},
                                        [&](const std::string& key, const YamlNode& value) -> Status {
                                          if (key == "output") return values_.text(value, key, ensemble.output);
                                          if (key == "defaults") return read_draft(value, true, defaults);
                                          jobs = &value;
                                          return base::ok_status();
                                        }));
    if (jobs == nullptr || jobs->kind != YamlNode::Kind::kList || jobs->items.empty()) {
      return values_.fail(jobs == nullptr ? root : *jobs, "jobs must be a list of at least one job");
    }
    for (const YamlNode& item : jobs->items) {
      JobDraft draft = defaults;
      MUSTER_RETURN_IF_ERROR(read_draft(item, false, draft));
      if (draft.name.empty()) return values_.fail(item, "the job has no name");
      if (draft.command.empty()) return values_.fail(item, fmt::format("job {} has no command", draft.name));
      MUSTER_RETURN_IF_ERROR(add_combinations(item, draft, ensemble.jobs));
    }
    return ensemble;
  }

 private:
  // Expands a range: "0-3" becomes 0, 1, 2, 3.
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
    if (node.kind != YamlNode::Kind::kMap) return values_.fail(node, "sweep must hold KEY: [values]");
    for (std::size_t i = 0; i < node.items.size(); ++i) {
      const YamlNode& value = node.items[i];
      Words values;
      if (value.kind == YamlNode::Kind::kScalar) {
        const auto range = range_of(value.text);
        if (!range)
          return values_.fail(value, "a key of sweep takes a list of values, or a range of numbers such as 0-9");
        values = *range;
      } else {
        MUSTER_RETURN_IF_ERROR(values_.words(value, "sweep." + node.keys[i].text, values));
        if (values.empty()) return values_.fail(value, "a key of sweep takes at least one value");
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
      if (key == "name") return values_.text(value, key, draft.name);
      if (key == "command") return values_.words(value, key, draft.command);
      if (key == "env") return values_.environment(value, draft.environment);
      if (key == "sweep") return read_sweep(value, draft);
      if (key == "options") {
        Words words;
        MUSTER_RETURN_IF_ERROR(values_.words(value, key, words));
        draft.options.insert(draft.options.end(), words.begin(), words.end());
        return base::ok_status();
      }
      std::string text;
      MUSTER_RETURN_IF_ERROR(values_.text(value, key, text));
      // Appended later, so these options win over those of defaults.
      draft.options.insert(draft.options.end(), {kOptions.find(key)->second, text});
      return base::ok_status();
    };
    return values_.keys(node, is_default ? "defaults" : "a job", known, read);
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
    EnsembleJob job{.name = filled(draft.name, values), .arguments = {}, .where = values_.place(at)};
    const bool is_clean = !job.name.empty() && job.name.find_first_not_of(kNameCharacters) == std::string::npos &&
                          job.name.size() <= kLongestName && job.name.front() != '.' && job.name.front() != '-';
    if (!is_clean) {
      return values_.fail(at,
                          fmt::format("'{}' cannot name a job: use only letters, digits and ._=,+-, at most {} of them",
                                      base::printable(job.name.substr(0, kLongestName)), kLongestName));
    }
    if (!names_.insert(job.name).second) {
      return values_.fail(
          at, fmt::format("two jobs are named {}: put a key of the sweep into the name, as in {}-{{seed}}", job.name,
                          job.name));
    }
    if (jobs.size() >= kMostEnsembleJobs) return values_.fail(at, fmt::format("more than {} jobs", kMostEnsembleJobs));
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

  // Adds one job for each combination. The last key of the sweep changes fastest.
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

  const YamlValues values_;
  std::set<std::string> names_;
};

}  // namespace

Result<Ensemble> parse_ensemble(std::string_view content, const std::string& file_name) {
  MUSTER_ASSIGN_OR_RETURN(const YamlNode root, base::parse_yaml(content, file_name));
  return EnsembleReader(file_name).read(root);
}

}  // namespace muster::cli::ensemble
