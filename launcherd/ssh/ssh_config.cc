// The ssh configuration: pattern matching, splitting of lines, and Reader, which applies the lines of all files.
// Read read_ssh_config at the end first, then Reader::read_file, then Reader::apply.
#include "launcherd/ssh/ssh_config.h"

#include <algorithm>
#include <array>
#include <cctype>

#include <fmt/format.h>

#include "base/strings.h"

namespace muster::launcherd::inline ssh {
namespace {

constexpr int kMaxIncludeDepth = 16;
constexpr int kMaxIncludes = 256;

// Keywords that do not affect our log-ins. Such a log-in uses a public key and runs one program, without terminal or
// forwarding.
constexpr std::array<std::string_view, 48> kWithoutEffect = {"addkeystoagent",
                                                             "batchmode",
                                                             "challengeresponseauthentication",
                                                             "checkhostip",
                                                             "clearallforwardings",
                                                             "compression",
                                                             "compressionlevel",
                                                             "connectionattempts",
                                                             "connecttimeout",
                                                             "dynamicforward",
                                                             "enableescapecommandline",
                                                             "escapechar",
                                                             "exitonforwardfailure",
                                                             "fingerprinthash",
                                                             "forwardagent",
                                                             "forwardx11",
                                                             "forwardx11timeout",
                                                             "forwardx11trusted",
                                                             "gatewayports",
                                                             "gssapiauthentication",
                                                             "gssapicleanupcredentials",
                                                             "gssapidelegatecredentials",
                                                             "gssapikeyexchange",
                                                             "gssapirenewalforcesrekey",
                                                             "gssapitrustdns",
                                                             "ipqos",
                                                             "kbdinteractiveauthentication",
                                                             "keepalive",
                                                             "localforward",
                                                             "loglevel",
                                                             "logverbose",
                                                             "numberofpasswordprompts",
                                                             "passwordauthentication",
                                                             "protocol",
                                                             "rekeylimit",
                                                             "remoteforward",
                                                             "requesttty",
                                                             "rhostsrsaauthentication",
                                                             "sendenv",
                                                             "serveralivecountmax",
                                                             "serveraliveinterval",
                                                             "showpatch",
                                                             "streamlocalbindmask",
                                                             "streamlocalbindunlink",
                                                             "syslogfacility",
                                                             "tcpkeepalive",
                                                             "updatehostkeys",
                                                             "visualhostkey"};

// Keywords that libssh can serve only if they are switched off.
constexpr std::array<std::string_view, 10> kFineWhenOff = {"canonicalizehostname",
                                                           "controlmaster",
                                                           "controlpath",
                                                           "controlpersist",
                                                           "hostbasedauthentication",
                                                           "nohostauthenticationforlocalhost",
                                                           "permitlocalcommand",
                                                           "proxycommand",
                                                           "proxyjump",
                                                           "verifyhostkeydns"};

bool matches_pattern(std::string_view text, std::string_view pattern) {
  std::size_t t = 0;
  std::size_t p = 0;
  std::size_t star = std::string_view::npos;
  std::size_t star_text = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_text = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++star_text;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

// Splits a line into words: `keyword value…` or `keyword=value`, with "double quotes". nullopt if a quote is not
// closed, or if only ssh's own rules can parse the line.
std::optional<std::vector<std::string>> words_of(std::string_view line) {
  std::vector<std::string> words;
  std::size_t i = 0;
  const auto is_blank = [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\f'; };
  while (i < line.size()) {
    // One '=' may stand between the keyword and its first value.
    bool may_be_equals = words.size() == 1;
    while (i < line.size() && (is_blank(line[i]) || (line[i] == '=' && may_be_equals))) {
      if (line[i] == '=') may_be_equals = false;
      ++i;
    }
    if (i == line.size() || line[i] == '#') break;
    std::string word;
    if (line[i] == '"') {
      const std::size_t end = line.find('"', i + 1);
      if (end == std::string_view::npos) return std::nullopt;
      word = line.substr(i + 1, end - i - 1);
      i = end + 1;
    } else {
      while (i < line.size() && !is_blank(line[i]) && !(words.empty() && line[i] == '=')) {
        // Quotes inside a word are rare, so leave them to ssh.
        if (line[i] == '"' || line[i] == '\'' || line[i] == '\\') return std::nullopt;
        word += line[i++];
      }
    }
    words.push_back(std::move(word));
  }
  return words;
}

class Reader {
 public:
  Reader(const SshConfigQuery& query, const SshConfigFiles& files) : query_(query), files_(files) {}

  void read_file(const std::string& path, bool is_users, bool is_active, int depth) {
    if (depth > kMaxIncludeDepth || ++files_read_ > kMaxIncludes) return need("Include is nested too deeply");
    const std::optional<std::string> content = files_.read(path);
    if (!content) return;
    bool is_in_match = false;
    int number = 0;
    for (const std::string_view raw : base::split(*content, '\n')) {
      ++number;
      const std::string_view line = base::trim(raw);
      if (line.empty() || line.front() == '#') continue;
      where_ = fmt::format("{}:{}", path, number);
      const auto words = words_of(line);
      if (!words || words->empty()) {
        need("not understood");
        continue;
      }
      const std::string keyword = base::lower(words->front());
      const std::vector<std::string> values(words->begin() + 1, words->end());
      if (keyword == "host") {
        is_active = matches_host_patterns(query_.host, values);
        is_in_match = false;
      } else if (keyword == "match") {
        need("Match");
        is_active = false;
        is_in_match = true;
      } else if (!is_active) {
        if (is_in_match && keyword == "stricthostkeychecking") config_.is_strict_conditional = true;
      } else if (keyword == "include") {
        include(values, is_users, depth);
      } else {
        apply(keyword, values);
      }
    }
  }

  SshHostConfig finish() {
    if (config_.host_name.empty()) config_.host_name = query_.host;
    // Expand %r and %h last, because they mean the final user and host name.
    for (auto* list : {&config_.identity_files, &config_.user_known_hosts, &config_.global_known_hosts}) {
      for (std::string& path : *list) path = expand_path(path);
    }
    return config_;
  }

 private:
  void need(std::string_view what) {
    if (config_.needs_ssh.empty()) config_.needs_ssh = fmt::format("{}: {}", where_, what);
  }

  void include(const std::vector<std::string>& patterns, bool is_users, int depth) {
    for (const std::string& pattern : patterns) {
      std::string path = pattern;
      if (path.starts_with("~/")) {
        path = query_.home + path.substr(1);
      } else if (!path.starts_with('/')) {
        const std::string& base_file = is_users ? query_.user_file : query_.system_file;
        path = base_file.substr(0, base_file.rfind('/') + 1) + path;
      }
      for (const std::string& file : files_.glob(path)) read_file(file, is_users, true, depth + 1);
    }
  }

  void apply(const std::string& keyword, const std::vector<std::string>& values) {
    const std::string value = values.empty() ? "" : values.front();
    if (value.empty()) return need(keyword + " without a value");
    if (keyword == "hostname") return set_host_name(value);
    if (keyword == "user") return set_once(config_.user, value);
    if (keyword == "port") {
      const auto port = base::parse_decimal(value, 65535);
      if (!port || *port == 0) return need("Port " + value);
      if (config_.port == 0) config_.port = static_cast<int>(*port);
      return;
    }
    if (keyword == "identityfile") return config_.identity_files.push_back(value);
    if (keyword == "userknownhostsfile") return set_list(config_.user_known_hosts, values);
    if (keyword == "globalknownhostsfile") return set_list(config_.global_known_hosts, values);
    if (keyword == "stricthostkeychecking") return set_strict(base::lower(value));
    if (keyword == "identitiesonly") return set_flag(has_identities_only_, config_.identities_only, value);
    if (keyword == "hashknownhosts") return set_flag(has_hash_, config_.hash_known_hosts, value);
    if (keyword == "pubkeyauthentication" && base::lower(value) == "yes") return;
    if (keyword == "preferredauthentications" && value.starts_with("publickey")) return;
    const bool is_off = base::lower(value) == "no" || base::lower(value) == "none" || base::lower(value) == "false";
    if (is_off && contains(kFineWhenOff, keyword)) return;
    if (!contains(kWithoutEffect, keyword)) need(keyword);
  }

  template <std::size_t N>
  static bool contains(const std::array<std::string_view, N>& list, std::string_view word) {
    return std::find(list.begin(), list.end(), word) != list.end();
  }

  static void set_once(std::string& field, const std::string& value) {
    if (field.empty()) field = value;
  }

  void set_list(std::vector<std::string>& field, const std::vector<std::string>& values) {
    if (field.empty()) field = values;
  }

  static void set_flag(bool& is_set, bool& field, const std::string& value) {
    if (!is_set) field = base::lower(value) == "yes" || base::lower(value) == "true";
    is_set = true;
  }

  void set_host_name(const std::string& value) {
    std::string expanded;
    for (std::size_t i = 0; i < value.size(); ++i) {
      if (value[i] != '%') {
        expanded += value[i];
      } else if (++i < value.size() && value[i] == 'h') {
        expanded += query_.host;
      } else if (i < value.size() && value[i] == '%') {
        expanded += '%';
      } else {
        return need("HostName " + value);
      }
    }
    set_once(config_.host_name, expanded);
  }

  void set_strict(const std::string& value) {
    if (config_.strict != StrictHostKeys::kUnset) return;
    if (value == "yes" || value == "true") {
      config_.strict = StrictHostKeys::kYes;
    } else if (value == "no" || value == "off" || value == "false") {
      config_.strict = StrictHostKeys::kNo;
    } else if (value == "accept-new") {
      config_.strict = StrictHostKeys::kAcceptNew;
    } else if (value == "ask") {
      config_.strict = StrictHostKeys::kAsk;
    } else {
      need("StrictHostKeyChecking " + value);
    }
  }

  std::string expand_path(const std::string& path) {
    std::string result;
    std::size_t i = 0;
    if (path.starts_with("~/")) {
      result = query_.home;
      i = 1;
    } else if (path.starts_with('~') || path.find("${") != std::string::npos) {
      need("path " + path);
    } else if (!path.starts_with('/') && !path.starts_with('%') && base::lower(path) != "none") {
      need("relative path " + path);
    }
    for (; i < path.size(); ++i) {
      if (path[i] != '%') {
        result += path[i];
        continue;
      }
      const char token = ++i < path.size() ? path[i] : '\0';
      if (token == 'd') {
        result += query_.home;
      } else if (token == 'h') {
        result += config_.host_name;
      } else if (token == 'u') {
        result += query_.local_user;
      } else if (token == 'r') {
        result += !query_.user.empty() ? query_.user : !config_.user.empty() ? config_.user : query_.local_user;
      } else if (token == '%') {
        result += '%';
      } else {
        need("path " + path);
      }
    }
    return result;
  }

  const SshConfigQuery& query_;
  const SshConfigFiles& files_;
  SshHostConfig config_;
  std::string where_;
  int files_read_ = 0;
  bool has_identities_only_ = false;
  bool has_hash_ = false;
};

}  // namespace

bool matches_host_patterns(std::string_view host, const std::vector<std::string>& patterns) {
  bool is_match = false;
  for (const std::string_view pattern : patterns) {
    if (pattern.starts_with('!')) {
      if (matches_pattern(host, pattern.substr(1))) return false;
    } else {
      is_match = is_match || matches_pattern(host, pattern);
    }
  }
  return is_match;
}

SshHostConfig read_ssh_config(const SshConfigQuery& query, const SshConfigFiles& files) {
  Reader reader(query, files);
  if (!query.user_file.empty()) reader.read_file(query.user_file, true, true, 0);
  if (!query.system_file.empty()) reader.read_file(query.system_file, false, true, 0);
  return reader.finish();
}

}  // namespace muster::launcherd::ssh
