#include "cli/role_file.h"

#include <algorithm>
#include <span>

#include "base/file.h"
#include "base/strings.h"
#include "base/yaml.h"
#include "cli/config_file.h"
#include "cli/programs.h"
#include "cli/setting_reader.h"
#include "model/placement.h"

namespace muster::cli {
namespace {

using base::Code;
using base::error;
using base::Result;
using base::Status;
using base::YamlNode;
using Words = std::vector<std::string>;

class RoleReader {
 public:
  explicit RoleReader(const std::string& file_name) : file_name_(file_name) {}

  Result<std::vector<model::Role>> read(const YamlNode& root) const {
    std::vector<model::Role> roles;
    if (root.kind != YamlNode::Kind::kMap) return roles;
    const auto key = std::ranges::find(root.keys, "roles", &YamlNode::Key::text);
    if (key == root.keys.end()) return roles;
    const YamlNode& list = root.items[static_cast<std::size_t>(key - root.keys.begin())];
    if (list.kind != YamlNode::Kind::kList || list.items.empty()) {
      return fail(list, "roles takes a list of at least one role");
    }
    for (const YamlNode& item : list.items) {
      MUSTER_ASSIGN_OR_RETURN(model::Role role, read_role(item));
      roles.push_back(std::move(role));
      const Status valid = model::check_roles(roles);
      if (!valid.ok()) return fail(item, valid.message());
    }
    return roles;
  }

 private:
  Status fail(const YamlNode& at, std::string_view problem) const {
    return error(Code::kInvalidArgument, "{}:{}:{}: {}", file_name_, at.line, at.column, problem);
  }

  Result<model::Role> read_role(const YamlNode& node) const {
    if (node.kind != YamlNode::Kind::kMap) return fail(node, "a role holds keys: name, np, command");
    model::Role role;
    role.np = 0;
    for (std::size_t i = 0; i < node.items.size(); ++i) {
      MUSTER_RETURN_IF_ERROR(read_key(node.keys[i], node.items[i], role));
    }
    if (role.np == 0) role.np = role.hosts.empty() ? 1 : slots_of(role.hosts);  // as on the command line
    if (role.name.empty()) return fail(node, "the role has no name");
    if (role.command.empty()) return fail(node, fmt::format("role {} has no command", base::printable(role.name)));
    return role;
  }

  Status read_key(const YamlNode::Key& key, const YamlNode& value, model::Role& role) const {
    static const Words kKnown = {"name", "np", "command", "hosts", "env", "wdir", "service"};
    if (key.text == "command") return read_words(value, role.command);
    if (key.text == "env") return read_environment(value, role);
    if (key.text == "hosts") return read_hosts(value, role);
    if (std::ranges::find(kKnown, key.text) == kKnown.end()) {
      const auto nearest = base::nearest_word(key.text, kKnown);
      return error(Code::kInvalidArgument, "{}:{}:{}: unknown key '{}' in a role{}", file_name_, key.line, key.column,
                   base::printable(key.text),
                   nearest ? fmt::format("; did you mean {}?", *nearest)
                           : fmt::format("; there are {}", base::join(kKnown, ", ")));
    }
    std::string text;
    MUSTER_RETURN_IF_ERROR(read_text(value, key.text, text));
    if (key.text == "np") {
      const auto count = base::parse_decimal(text, model::kMaxRanks);
      if (!count || *count < 1) return fail(value, fmt::format("np must be a number from 1 to {}", model::kMaxRanks));
      role.np = static_cast<int>(*count);
    } else if (key.text == "service") {
      const auto is_on = parse_toggle(text);
      if (!is_on) return fail(value, "service must be true or false");
      role.is_service = *is_on;
    } else {
      (key.text == "name" ? role.name : role.workdir) = text;
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

  Status read_words(const YamlNode& node, Words& into) const {
    if (node.kind != YamlNode::Kind::kList || node.items.empty()) {
      return fail(node, "command takes a list of words, as [python3, train.py]: no shell reads it");
    }
    for (const YamlNode& item : node.items) {
      if (item.kind != YamlNode::Kind::kScalar || item.text.find('\0') != std::string::npos) {
        return fail(item, "command takes a list of words");
      }
      into.push_back(item.text);
    }
    return into.front().empty() ? fail(node, "the command is an empty word") : base::ok_status();
  }

  Status read_hosts(const YamlNode& node, model::Role& role) const {
    const auto items = node.kind == YamlNode::Kind::kList ? std::span(node.items) : std::span(&node, 1);
    for (const YamlNode& item : items) {
      std::string text;
      MUSTER_RETURN_IF_ERROR(read_text(item, "hosts", text));
      auto hosts = model::parse_host_list(text, fmt::format("{}:{}:{}: hosts", file_name_, item.line, item.column));
      if (!hosts.ok()) return hosts.status();
      role.hosts.insert(role.hosts.end(), hosts->begin(), hosts->end());
    }
    return base::ok_status();
  }

  Status read_environment(const YamlNode& node, model::Role& role) const {
    if (node.kind != YamlNode::Kind::kMap) return fail(node, "env must hold NAME: VALUE");
    for (std::size_t i = 0; i < node.items.size(); ++i) {
      const YamlNode& value = node.items[i];
      const std::string& name = node.keys[i].text;
      const bool is_plain = value.kind == YamlNode::Kind::kScalar || value.kind == YamlNode::Kind::kNull;
      if (!is_plain || value.text.find('\0') != std::string::npos || name.find('=') != std::string::npos) {
        return fail(value, fmt::format("env: {} takes one value", base::printable(name)));
      }
      const Status valid = check_variable(name);
      if (!valid.ok()) return fail(value, valid.message());
      role.environment.push_back(name + "=" + value.text);
    }
    return base::ok_status();
  }

  const std::string& file_name_;
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

}  // namespace muster::cli
