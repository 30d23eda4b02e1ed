#include "cli/options/role_file.h"

#include <algorithm>
#include <span>

#include "base/file.h"
#include "base/strings.h"
#include "cli/help/base_names.h"
#include "cli/options/config_file.h"
#include "cli/options/programs.h"
#include "cli/options/setting_reader.h"
#include "cli/options/yaml_values.h"
#include "model/placement.h"

namespace muster::cli::inline options {
namespace {

using base::YamlNode;

class RoleReader {
 public:
  explicit RoleReader(const std::string& file_name) : values_(file_name) {}

  Result<std::vector<model::Role>> read(const YamlNode& root) const {
    std::vector<model::Role> roles;
    if (root.kind != YamlNode::Kind::kMap) return roles;
    const auto key = std::ranges::find(root.keys, "roles", &YamlNode::Key::text);
    if (key == root.keys.end()) return roles;
    const YamlNode& list = root.items[static_cast<std::size_t>(key - root.keys.begin())];
    if (list.kind != YamlNode::Kind::kList || list.items.empty()) {
      return values_.fail(list, "roles takes a list of at least one role");
    }
    for (const YamlNode& item : list.items) {
      MUSTER_ASSIGN_OR_RETURN(model::Role role, read_role(item));
      roles.push_back(std::move(role));
      const Status valid = model::check_roles(roles);
      if (!valid.ok()) return values_.fail(item, valid.message());
    }
    return roles;
  }

 private:
  Result<model::Role> read_role(const YamlNode& node) const {
    model::Role role;
    role.np = 0;
    MUSTER_RETURN_IF_ERROR(
        values_.keys(node, "a role", {"name", "np", "command", "hosts", "env", "wdir", "service"},
                     [&](const std::string& key, const YamlNode& value) { return read_key(key, value, role); }));
    // Use the same default number of ranks as on the command line.
    if (role.np == 0) role.np = role.hosts.empty() ? 1 : slots_of(role.hosts);
    if (role.name.empty()) return values_.fail(node, "the role has no name");
    if (role.command.empty()) {
      return values_.fail(node, fmt::format("role {} has no command", base::printable(role.name)));
    }
    return role;
  }

  Status read_key(const std::string& key, const YamlNode& value, model::Role& role) const {
    if (key == "command") return read_command(value, role.command);
    if (key == "env") return values_.environment(value, role.environment);
    if (key == "hosts") return read_hosts(value, role);
    std::string text;
    MUSTER_RETURN_IF_ERROR(values_.text(value, key, text));
    if (key == "np") {
      const auto count = base::parse_decimal(text, model::kMaxRanks);
      if (!count || *count < 1) {
        return values_.fail(value, fmt::format("np must be a number from 1 to {}", model::kMaxRanks));
      }
      role.np = static_cast<int>(*count);
    } else if (key == "service") {
      const auto is_on = parse_toggle(text);
      if (!is_on) return values_.fail(value, "service must be true or false");
      role.is_service = *is_on;
    } else {
      (key == "name" ? role.name : role.workdir) = text;
    }
    return base::ok_status();
  }

  Status read_command(const YamlNode& node, std::vector<std::string>& into) const {
    MUSTER_RETURN_IF_ERROR(values_.words(node, "command", into));
    return into.empty() || into.front().empty() ? values_.fail(node, "the command is empty") : base::ok_status();
  }

  Status read_hosts(const YamlNode& node, model::Role& role) const {
    const auto items = node.kind == YamlNode::Kind::kList ? std::span(node.items) : std::span(&node, 1);
    for (const YamlNode& item : items) {
      std::string text;
      MUSTER_RETURN_IF_ERROR(values_.text(item, "hosts", text));
      auto hosts = model::parse_host_list(text, fmt::format("{}: hosts", values_.place(item)));
      if (!hosts.ok()) return hosts.status();
      role.hosts.insert(role.hosts.end(), hosts->begin(), hosts->end());
    }
    return base::ok_status();
  }

  const YamlValues values_;
};

}  // namespace

Result<std::vector<model::Role>> parse_roles(std::string_view content, const std::string& file_name) {
  MUSTER_ASSIGN_OR_RETURN(const YamlNode root, base::parse_yaml(content, file_name));
  return RoleReader(file_name).read(root);
}

Result<std::vector<model::Role>> read_role_file(const std::string& path) {
  const auto content = base::read_file(path, kMaxConfigBytes);
  if (!content.ok()) return content.status().with_context("the configuration cannot be read");
  return parse_roles(*content, path);
}

}  // namespace muster::cli::options
