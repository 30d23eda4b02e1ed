#include "agent/probe/logind.h"

#include <unistd.h>

#include <map>

#include "base/directory.h"
#include "base/file.h"
#include "base/strings.h"

namespace muster::agent::inline probe {
namespace {

constexpr std::size_t kMaxFile = 1u << 16;

void read_if_there(const std::string& path, LogindSettings& settings) {
  const auto content = base::read_file(path, kMaxFile);
  if (content.ok()) read_logind_file(*content, settings);
}

// Returns the first main file that exists, because that file hides those in later folders.
std::string main_file(const std::string& root) {
  for (const char* const path : {"/etc/systemd/logind.conf", "/run/systemd/logind.conf",
                                 "/usr/local/lib/systemd/logind.conf", "/usr/lib/systemd/logind.conf"}) {
    if (::access((root + path).c_str(), F_OK) == 0) return root + path;
  }
  return "";
}

}  // namespace

void read_logind_file(std::string_view content, LogindSettings& settings) {
  bool is_login = false;
  for (const std::string_view raw : base::split(content, '\n')) {
    const std::string_view line = base::trim(raw);
    if (line.empty() || line.front() == '#' || line.front() == ';') continue;
    if (line.front() == '[') {
      is_login = line == "[Login]";
      continue;
    }
    const std::size_t equals = line.find('=');
    if (!is_login || equals == std::string_view::npos) continue;
    const std::string_view key = base::trim(line.substr(0, equals));
    const std::string_view value = base::trim(line.substr(equals + 1));
    if (key == "KillUserProcesses") settings.kill_user_processes = value;
    if (key == "RemoveIPC") settings.remove_ipc = value;
  }
}

LogindSettings read_logind_settings(const std::string& root) {
  LogindSettings settings;
  read_if_there(main_file(root), settings);
  std::map<std::string, std::string> drop_ins;  // path by file name
  for (const char* const folder : {"/etc/systemd/logind.conf.d", "/run/systemd/logind.conf.d",
                                   "/usr/local/lib/systemd/logind.conf.d", "/usr/lib/systemd/logind.conf.d"}) {
    for (const std::string& name : base::entries_of(root + folder)) {
      if (name.ends_with(".conf")) drop_ins.emplace(name, fmt::format("{}{}/{}", root, folder, name));
    }
  }
  for (const auto& [name, path] : drop_ins) read_if_there(path, settings);
  return settings;
}

bool is_systemd_running(const std::string& root) {
  return ::access((root + "/run/systemd/system").c_str(), F_OK) == 0;
}

bool does_user_linger(const std::string& root, std::string_view user) {
  if (user.empty() || user.find('/') != std::string_view::npos) return false;
  return ::access(fmt::format("{}/var/lib/systemd/linger/{}", root, user).c_str(), F_OK) == 0;
}

}  // namespace muster::agent::probe
