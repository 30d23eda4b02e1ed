#include "cli/hosts/env_file.h"

#include "base/file.h"
#include "base/strings.h"
#include "cli/hosts/surroundings.h"
#include "cli/options/setting_reader.h"

namespace muster::cli::inline hosts {

base::Result<std::vector<std::string>> parse_env_file(std::string_view text, const std::string& shown) {
  std::vector<std::string> variables;
  int number = 0;
  for (std::string_view line : base::split(text, '\n')) {
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    const std::size_t begin = line.find_first_not_of(" \t");
    if (begin == std::string_view::npos || line[begin] == '#') continue;
    std::string variable(line.substr(begin));
    if (variable.find('\0') != std::string::npos) {
      return base::invalid_argument("{}:{}: the line has a NUL byte", base::printable(shown), number);
    }
    if (const base::Status checked = check_variable(variable); !checked.ok()) {
      return checked.with_context(fmt::format("{}:{}", base::printable(shown), number));
    }
    variables.push_back(std::move(variable));
  }
  return variables;
}

base::Status read_env_files(JobRequest& request, const std::string& directory) {
  std::vector<std::string> all;
  for (const std::string& file : request.env_files) {
    const auto text = base::read_file(absolute_path(file, directory), kMaxEnvFile);
    if (!text.ok()) return text.status().with_context("--env-file");
    MUSTER_ASSIGN_OR_RETURN(const auto variables, parse_env_file(*text, file));
    all.insert(all.end(), variables.begin(), variables.end());
  }
  auto& named = request.job.environment.named;
  named.insert(named.begin(), all.begin(), all.end());
  return base::ok_status();
}

}  // namespace muster::cli::hosts
