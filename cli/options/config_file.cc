// This file reads YAML files into settings (ConfigReader), and merges all sources of settings.
// Read ConfigReader::read_section() first, then gather_settings() at the end.
#include "cli/options/config_file.h"

#include <algorithm>
#include <set>

#include "base/file.h"
#include "base/strings.h"
#include "base/yaml.h"
#include "cli/help/base_names.h"
#include "cli/options/template_defaults.h"

namespace muster::cli::inline options {
namespace {

using base::YamlNode;

class ConfigReader {
 public:
  ConfigReader(const std::string& file_name, const FlagTable& table, bool takes_roles,
               std::vector<std::string>* ignored)
      : file_name_(file_name), table_(table), takes_roles_(takes_roles), ignored_(ignored) {}

  // `path` is the path of the enclosing keys, such as "muster."; empty at the top level.
  Status read_section(const std::string& path, const YamlNode& section) {
    for (std::size_t i = 0; i < section.items.size(); ++i) {
      const YamlNode::Key& key = section.keys[i];
      const YamlNode& value = section.items[i];
      const std::string key_path = path + key.text;
      if (const auto flag = std::ranges::find(table_.flags(), key_path, &Flag::config_key);
          flag != table_.flags().end()) {
        MUSTER_RETURN_IF_ERROR(read_value(*flag, key, value));
      } else if (is_section(key_path)) {
        if (value.kind == YamlNode::Kind::kNull) continue;
        if (value.kind != YamlNode::Kind::kMap) return fail(key, fmt::format("{} holds keys, not a value", key_path));
        MUSTER_RETURN_IF_ERROR(read_section(key_path + ".", value));
      } else if (takes_roles_ && key_path == "roles") {
        continue;  // cli/options/role_file.h reads the roles
      } else if (key_path == "launcherd") {
        continue;  // launcherd's own settings; this program does not use them
      } else {
        MUSTER_RETURN_IF_ERROR(read_unknown(path, key));
      }
    }
    return base::ok_status();
  }

  std::vector<Setting> take() { return std::move(settings_); }

 private:
  Status fail(const YamlNode::Key& key, std::string_view problem) const {
    return base::invalid_argument("{}:{}:{}: {}", file_name_, key.line, key.column, problem);
  }

  bool is_section(const std::string& path) const {
    return std::ranges::any_of(table_.flags(),
                               [&](const Flag& flag) { return flag.config_key.starts_with(path + "."); });
  }

  Status read_value(const Flag& flag, const YamlNode::Key& key, const YamlNode& value) {
    switch (value.kind) {
      case YamlNode::Kind::kNull:
        return base::ok_status();
      case YamlNode::Kind::kScalar:
        return add(flag, key, value.text);
      case YamlNode::Kind::kList:
        return read_list(flag, key, value);
      case YamlNode::Kind::kMap:
        break;
    }
    return fail(key, fmt::format("{} takes a value, not keys", flag.config_key));
  }

  Status read_list(const Flag& flag, const YamlNode::Key& key, const YamlNode& list) {
    const bool adds_up = flag.repeat != Repeat::kLastCounts;
    if (!adds_up && flag.separator == '\0') {
      return fail(key, fmt::format("{} takes one value, not a list", flag.config_key));
    }
    std::vector<std::string> words;
    for (const YamlNode& item : list.items) {
      if (item.kind != YamlNode::Kind::kScalar) {
        return fail({key.text, item.line, item.column}, fmt::format("{} takes a list of words", flag.config_key));
      }
      if (adds_up) MUSTER_RETURN_IF_ERROR(add(flag, {key.text, item.line, item.column}, item.text));
      words.push_back(item.text);
    }
    if (adds_up || words.empty()) return base::ok_status();
    return add(flag, key, base::join(words, std::string_view(&flag.separator, 1)));
  }

  Status add(const Flag& flag, const YamlNode::Key& at, const std::string& value) {
    if (value.empty()) return fail(at, fmt::format("{} needs a value that is not empty", flag.config_key));
    if (value.find('\0') != std::string::npos) {
      return fail(at, fmt::format("the value of {} holds a NUL byte", flag.config_key));
    }
    settings_.push_back({&flag, value, fmt::format("{}:{}", file_name_, at.line),
                         fmt::format("{}:{}:{}: {}", file_name_, at.line, at.column, flag.config_key)});
    return base::ok_status();
  }

  // A key of Muster at a wrong place stays an error. If it were ignored, another job would run than the user means.
  Status read_unknown(const std::string& path, const YamlNode::Key& key) {
    const Status unknown = unknown_key(path, key);
    const bool is_ours = path.starts_with("muster.") || std::ranges::any_of(table_.flags(), [&](const Flag& flag) {
                           return flag.config_key == "muster." + key.text;
                         });
    if (ignored_ == nullptr || is_ours) return unknown;
    ignored_->push_back(fmt::format("{}; it is ignored, as by horovodrun", unknown.message()));
    return base::ok_status();
  }

  Status unknown_key(const std::string& path, const YamlNode::Key& key) const {
    std::set<std::string> known;  // the keys that are valid at this place
    std::string elsewhere;
    for (const Flag& flag : table_.flags()) {
      const std::string& config_key = flag.config_key;
      if (config_key.starts_with(path))
        known.insert(config_key.substr(path.size(), config_key.find('.', path.size()) - path.size()));
      if (config_key.ends_with("." + key.text)) elsewhere = config_key;
    }
    known.erase("");
    const std::string where = path.empty() ? "" : fmt::format(" in {}", path.substr(0, path.size() - 1));
    const auto nearest = base::nearest_word(key.text, std::vector<std::string>(known.begin(), known.end()));
    const std::string hint = !elsewhere.empty() ? fmt::format("; write {}", elsewhere)
                             : nearest          ? fmt::format("; did you mean {}?", *nearest)
                                                : "";
    return fail(key, fmt::format("unknown key '{}'{}{}", base::printable(key.text), where, hint));
  }

  const std::string& file_name_;
  const FlagTable& table_;
  const bool takes_roles_;
  std::vector<std::string>* const ignored_;
  std::vector<Setting> settings_;
};

// Returns the setting that names a file for this run. nullptr if there is none.
const Setting* named_file(const std::vector<Setting>& variables, const std::vector<Setting>& flags) {
  const Setting* named = nullptr;
  for (const auto* layer : {&variables, &flags}) {
    for (const Setting& setting : *layer) {
      if (setting.flag->name == "config-file") named = &setting;
    }
  }
  return named;
}

Status add_file_if_there(const std::string& path, const FlagTable& table, Settings& settings) {
  const auto layer = read_config_file(path, table);
  if (layer.ok()) return settings.add_layer(*layer);
  return layer.status().code() == Code::kNotFound ? base::ok_status() : layer.status();
}

// Reads a file of a program's own form. Its settings get the rows of `table`, so that other sources replace them.
Result<std::vector<Setting>> read_own_file(const std::string& path, const OwnFile& own, const FlagTable& table) {
  MUSTER_ASSIGN_OR_RETURN(std::vector<Setting> layer, read_config_file(path, *own.table));
  for (Setting& setting : layer) setting.flag = &table.named(setting.flag->name);
  return layer;
}

// Adds config.yaml, and the own file in its folder.
Status add_files_if_there(const std::string& path, const OwnFile* own, const FlagTable& table, Settings& settings) {
  MUSTER_RETURN_IF_ERROR(add_file_if_there(path, table, settings));
  if (own == nullptr) return base::ok_status();
  const auto layer = read_own_file(fmt::format("{}/{}", path.substr(0, path.rfind('/')), own->name), *own, table);
  if (layer.ok()) return settings.add_layer(*layer);
  return layer.status().code() == Code::kNotFound ? base::ok_status() : layer.status();
}

Status add_named_file(const std::string& path, const FlagTable& table, bool takes_roles, Settings& settings) {
  std::vector<std::string> ignored;
  const auto layer = read_config_file(path, table, takes_roles, &ignored);
  if (!layer.ok()) return layer.status();
  for (std::string& note : ignored) settings.add_note(std::move(note));
  return settings.add_layer(*layer);
}

}  // namespace

Result<std::vector<Setting>> parse_config(std::string_view content, const std::string& file_name,
                                          const FlagTable& table, bool takes_roles, std::vector<std::string>* ignored) {
  MUSTER_ASSIGN_OR_RETURN(const YamlNode root, base::parse_yaml(content, file_name));
  if (root.kind == YamlNode::Kind::kNull) return std::vector<Setting>{};
  if (root.kind != YamlNode::Kind::kMap) {
    return base::invalid_argument("{}:{}:{}: keys are expected, as in 'muster:' and 'timeout: 2h' below it", file_name,
                                  root.line, root.column);
  }
  ConfigReader reader(file_name, table, takes_roles, ignored);
  MUSTER_RETURN_IF_ERROR(reader.read_section("", root));
  return reader.take();
}

std::optional<std::string> named_config(const CommandLine& line, const base::Environment& environment,
                                        const FlagTable& table) {
  const std::vector<Setting> variables = settings_of(environment, table);
  const std::vector<Setting> flags = settings_of(line);
  const Setting* const named = named_file(variables, flags);
  return named == nullptr ? std::nullopt : std::optional(named->value);
}

Result<std::vector<Setting>> read_config_file(const std::string& path, const FlagTable& table, bool takes_roles,
                                              std::vector<std::string>* ignored) {
  const auto content = base::read_file(path, kMaxConfigBytes);
  if (!content.ok()) return content.status().with_context("the configuration cannot be read");
  return parse_config(*content, path, table, takes_roles, ignored);
}

Result<Settings> gather_settings(const CommandLine& line, const base::Environment& environment,
                                 const std::string& system_file, const FlagTable& table,
                                 const std::vector<Setting>& defaults, NamedFile kind, const OwnFile* own) {
  const std::vector<Setting> variables = settings_of(environment, table);
  const std::vector<Setting> flags = settings_of(line);
  Settings settings;
  MUSTER_RETURN_IF_ERROR(add_files_if_there(system_file, own, table, settings));
  if (const auto home = environment.get("HOME"); home && home->starts_with('/')) {
    const std::string file = fmt::format("{}/.config/muster/config.yaml", *home);
    MUSTER_RETURN_IF_ERROR(add_files_if_there(file, own, table, settings));
  }
  const Setting* const named = named_file(variables, flags);
  if (named != nullptr && own != nullptr) {
    MUSTER_ASSIGN_OR_RETURN(const std::vector<Setting> layer, read_own_file(named->value, *own, table));
    MUSTER_RETURN_IF_ERROR(settings.add_layer(layer));
  } else if (named != nullptr) {
    MUSTER_RETURN_IF_ERROR(add_named_file(named->value, table, kind == NamedFile::kJob, settings));
  }
  MUSTER_RETURN_IF_ERROR(settings.add_layer(without_overruled(without_overruled(defaults, variables), flags)));
  MUSTER_RETURN_IF_ERROR(settings.add_layer(variables));
  MUSTER_RETURN_IF_ERROR(settings.add_layer(flags));
  return settings;
}

}  // namespace muster::cli::options
