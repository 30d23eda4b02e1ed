#include "model/container.h"

#include <algorithm>
#include <map>
#include <utility>

namespace muster::model {
namespace {

constexpr std::string_view kBlanks = " \t\n\r";
constexpr std::string_view kPrefixes[] = {"APPTAINERENV_", "SINGULARITYENV_"};

// Reads one word with its quotes from `at` on, and moves `at` behind it.
base::Result<std::string> read_word(std::string_view text, std::size_t& at) {
  std::string word;
  char quote = '\0';
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (quote == '\0' && kBlanks.find(c) != std::string_view::npos) return word;
    if (quote == '\0' && (c == '\'' || c == '"')) {
      quote = c;
    } else if (quote != '\0' && c == quote) {
      quote = '\0';
    } else if (c == '\\' && quote != '\'' && at + 1 < text.size()) {
      word += text[++at];
    } else {
      word += c;
    }
  }
  if (quote == '\0') return word;
  return base::invalid_argument("a {} is not closed", quote);
}

}  // namespace

base::Result<std::vector<std::string>> split_words(std::string_view text) {
  std::vector<std::string> words;
  for (std::size_t at = text.find_first_not_of(kBlanks); at < text.size(); at = text.find_first_not_of(kBlanks, at)) {
    MUSTER_ASSIGN_OR_RETURN(std::string word, read_word(text, at));
    words.push_back(std::move(word));
  }
  return words;
}

Container on_host(Container container, const NodeShape& node) {
  constexpr std::pair<GpuVendor, const char*> kOptions[] = {{GpuVendor::kAmd, "--rocm"}, {GpuVendor::kNvidia, "--nv"}};
  for (const auto& [vendor, option] : kOptions) {
    if (std::ranges::find(node.gpus, vendor, &GpuShape::vendor) == node.gpus.end()) continue;
    if (std::ranges::find(container.args, option) != container.args.end()) continue;
    container.args.insert(container.args.begin(), option);
  }
  return container;
}

std::vector<std::string> container_command(const Container& container, const std::string& program,
                                           const std::vector<std::string>& folders, const std::string& workdir,
                                           const std::vector<std::string>& command) {
  std::vector<std::string> argv = {program, "exec"};
  for (const std::string& folder : folders) {
    argv.emplace_back("--bind");
    argv.push_back(folder);
  }
  if (!workdir.empty()) {
    argv.emplace_back("--pwd");
    argv.push_back(workdir);
  }
  argv.insert(argv.end(), container.args.begin(), container.args.end());
  argv.push_back(container.image);
  argv.insert(argv.end(), command.begin(), command.end());
  return argv;
}

void add_container_variables(const std::vector<std::string>& names, std::vector<std::string>& environment) {
  std::map<std::string, std::string, std::less<>> there;
  for (const std::string& entry : environment) there.emplace(entry.substr(0, entry.find('=')), entry);
  for (const std::string& name : names) {
    const auto found = there.find(name);
    if (found == there.end()) continue;
    for (const std::string_view prefix : kPrefixes) {
      const std::string inside = std::string(prefix) + name;
      if (there.emplace(inside, "").second) environment.push_back(std::string(prefix) + found->second);
    }
  }
}

}  // namespace muster::model
