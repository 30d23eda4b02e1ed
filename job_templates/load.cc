// All of load.h. Read candidates() first (where a name is found), then Loader (what a template extends), then finish().
// The public functions are at the end.
#include "job_templates/load.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/file.h"
#include "base/strings.h"
#include "job_templates/schema.h"

namespace muster::job_templates {
namespace {

using base::Result;
using base::Status;

constexpr std::size_t kMaxParts = 16;

// The place of a template: a file, or the program itself.
struct Found {
  std::string name;
  std::string path;  // empty if built in
  std::string_view content;

  std::string origin() const { return path.empty() ? "built in" : path; }
  std::string id() const { return path.empty() ? "built-in template " + name : path; }
};

bool is_path(std::string_view name) {
  return name.find('/') != std::string_view::npos || name.ends_with(".yaml");
}

bool is_file(const std::string& path) {
  std::error_code failed;
  return std::filesystem::is_regular_file(path, failed);
}

// All templates of one name.
struct Candidates {
  std::vector<Found> found;  // the first one wins
  std::string left_out;      // a sentence about a file that was ignored; empty if there is none
};

// Ignore files of other users in a shared folder: a name alone must not run their template.
std::string why_left_out(const std::string& name, const std::string& path, const Sources& sources) {
  if (!sources.owner) return "";
  struct stat info {};
  const auto is_foreign = [&](int stat_result) {  // if stat fails, reading the file reports the error
    return stat_result == 0 && info.st_uid != *sources.owner && info.st_uid != 0;
  };
  // Ignore a link that belongs to another user, even if it points to a file of this user.
  const bool counts = !is_foreign(::lstat(path.c_str(), &info)) && !is_foreign(::stat(path.c_str(), &info));
  if (counts) return "";
  return fmt::format("template {}: {} is ignored because it belongs to another user (uid {}); use -t {} to accept it",
                     base::printable(name), base::printable(path), info.st_uid, base::printable(path));
}

Candidates candidates(const std::string& name, const Sources& sources) {
  Candidates result;
  const std::string in_directory = fmt::format("{}/{}.yaml", sources.directory, name);
  if (!sources.directory.empty() && is_file(in_directory)) {
    result.left_out = why_left_out(name, in_directory, sources);
    if (result.left_out.empty()) result.found.push_back({name, in_directory, {}});
  }
  const std::string of_user = fmt::format("{}/{}.yaml", sources.user_folder, name);
  if (!sources.user_folder.empty() && is_file(of_user)) result.found.push_back({name, of_user, {}});
  for (const BuiltIn& each : built_in_templates()) {
    if (each.name == name) result.found.push_back({name, "", each.content});
  }
  return result;
}

using Notes = std::vector<std::string>;

// Returns the template behind `after`, or the first one if `after` is empty. Notes say what is hidden or ignored.
Result<Found> find_named(const std::string& name, const Sources& sources, const std::string& after, Notes& notes) {
  auto [found, left_out] = candidates(name, sources);
  if (after.empty() && found.size() > 1) {
    notes.push_back(fmt::format("template {}: {} hides the one {}", name, found[0].origin(),
                                found[1].path.empty() ? "built in" : "in " + found[1].path));
  }
  if (!after.empty()) {
    const auto self = std::ranges::find(found, after, &Found::id);
    if (self != found.end()) found.erase(found.begin(), self + 1);
  }
  if (!found.empty()) {
    if (!left_out.empty()) notes.push_back(std::move(left_out));
    return found.front();
  }
  const auto nearest = base::nearest_word(name, template_names(sources));
  return base::not_found("{} template '{}'{} (muster templates lists them){}", after.empty() ? "unknown" : "no other",
                         base::printable(name),
                         nearest && *nearest != name ? fmt::format(", did you mean {}?", *nearest) : "",
                         left_out.empty() ? "" : "; " + left_out);
}

Result<Found> find_file(const std::string& name, const std::string& folder) {
  const std::string path = name.starts_with('/') || folder.empty() ? name : fmt::format("{}/{}", folder, name);
  if (!is_file(path)) return base::not_found("the template {} does not exist", base::printable(path));
  return Found{std::filesystem::path(path).stem().string(), path, {}};
}

class Loader {
 public:
  Loader(const Sources& sources, Notes& notes) : sources_(sources), notes_(notes) {}

  // Returns the template, merged over everything that it extends.
  Result<Piece> load(const Found& found) {
    if (std::ranges::find(chain_, found.id()) != chain_.end()) {
      return base::invalid_argument("extends forms a cycle: {} → {}", base::join(chain_, " → "), found.id());
    }
    if (++parts_ > kMaxParts) {
      return base::invalid_argument("{}: more than {} templates extend each other", found.id(), kMaxParts);
    }
    std::string content(found.content);
    if (!found.path.empty()) {
      auto read = base::read_file(found.path, kMaxTemplateBytes);
      if (!read.ok()) return read.status().with_context("the template cannot be read");
      content = *std::move(read);
    }
    return read(content, found);
  }

  Result<Piece> read(std::string_view content, const Found& found) {
    MUSTER_ASSIGN_OR_RETURN(Piece own, parse_document(content, found.id()));
    MUSTER_RETURN_IF_ERROR(check_schema(own));
    chain_.push_back(found.id());
    Piece merged;
    merged.kind = Piece::Kind::kMap;
    merged.place = own.place;
    if (const Piece* parents = own.find("extends")) {
      std::vector<Piece> names = parents->items;
      if (parents->kind == Piece::Kind::kText) names = {*parents};
      for (const Piece& name : names) {
        MUSTER_ASSIGN_OR_RETURN(const Found parent, find_parent(name, found));
        MUSTER_ASSIGN_OR_RETURN(const Piece below, load(parent));
        merged = merge(std::move(merged), below);
      }
    }
    chain_.pop_back();
    return merge(std::move(merged), own);
  }

 private:
  Result<Found> find_parent(const Piece& name, const Found& child) {
    // A built-in template's parent is built in, so ignore files of the user with the same name.
    const Sources& sources = child.path.empty() ? no_files_ : sources_;
    const std::string folder = std::filesystem::path(child.path).parent_path().string();
    auto parent = is_path(name.text)
                      ? find_file(name.text, folder)
                      : find_named(name.text, sources, name.text == child.name ? child.id() : "", notes_);
    return parent.ok() ? parent : Result<Found>(error_at(name.place, parent.status().message()));
  }

  const Sources& sources_;
  const Sources no_files_{};
  Notes& notes_;
  std::vector<std::string> chain_;
  std::size_t parts_ = 0;
};

Result<Template> finish(Piece merged, const Found& found, Notes notes) {
  // The merged template contains its parents, so drop the reference to them.
  if (const auto key = std::ranges::find(merged.keys, "extends", &Piece::Key::text); key != merged.keys.end()) {
    merged.items.erase(merged.items.begin() + (key - merged.keys.begin()));
    merged.keys.erase(key);
  }
  MUSTER_ASSIGN_OR_RETURN(Template result, read_template(std::move(merged), found.name));
  result.origin = found.origin();
  for (std::string& note : notes) {
    const bool is_new = std::ranges::find(result.notes, note) == result.notes.end();
    if (is_new) result.notes.push_back(std::move(note));
  }
  return result;
}

std::set<std::string> names_in(const std::string& folder) {
  std::set<std::string> names;
  std::error_code failed;
  if (folder.empty()) return names;
  for (const auto& entry : std::filesystem::directory_iterator(folder, failed)) {
    if (entry.path().extension() == ".yaml" && is_file(entry.path().string())) {
      names.insert(entry.path().stem().string());
    }
  }
  return names;
}

}  // namespace

Sources standard_sources(const base::Environment& environment, const std::string& directory) {
  Sources sources{.directory = directory, .user_folder = {}, .owner = ::geteuid()};
  if (const auto home = environment.get("HOME"); home && home->starts_with('/')) {
    sources.user_folder = fmt::format("{}/.config/muster/templates", *home);
  }
  return sources;
}

Result<Template> load_template(const std::string& name, const Sources& sources) {
  Notes notes;
  const auto found = is_path(name) ? find_file(name, sources.directory) : find_named(name, sources, "", notes);
  if (!found.ok()) return found.status();
  MUSTER_ASSIGN_OR_RETURN(Piece merged, Loader(sources, notes).load(*found));
  return finish(std::move(merged), *found, std::move(notes));
}

Result<Template> parse_template(std::string_view content, const std::string& file_name, const Sources& sources) {
  Notes notes;
  const Found found{std::filesystem::path(file_name).stem().string(), file_name, content};
  MUSTER_ASSIGN_OR_RETURN(Piece merged, Loader(sources, notes).read(content, found));
  return finish(std::move(merged), found, std::move(notes));
}

std::vector<std::string> template_names(const Sources& sources) {
  std::set<std::string> names = names_in(sources.user_folder);
  for (const BuiltIn& each : built_in_templates()) names.emplace(each.name);
  // Do not list the job's folder, because any .yaml file may lie there.
  return {names.begin(), names.end()};
}

}  // namespace muster::job_templates
