// Finds templates and merges them with the templates that they extend.
//
// A NAME is searched in three places: the job's folder (./NAME.yaml), the user's own folder
// (~/.config/muster/templates/NAME.yaml), and the built-in templates. A word with '/' or ending in .yaml is a file.
// A template that extends its own name extends the next one of that name. A built-in template extends only built-in
// templates.
//
// Thread: any. The functions read files and block as long as the file system does.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/env.h"
#include "base/status.h"
#include "job_templates/template.h"

namespace muster::job_templates {

struct BuiltIn {
  std::string_view name;
  std::string_view content;
};

// Returns the files of templates/, which the build makes part of the program; sorted by name.
std::span<const BuiltIn> built_in_templates();

struct Sources {
  std::string directory;    // the job's folder; not searched if empty
  std::string user_folder;  // need not exist; not searched if empty
  // Files that are found by name in `directory` count only if this user or root owns them. nullopt: any owner counts.
  std::optional<unsigned> owner = {};
};

Sources standard_sources(const base::Environment& environment, const std::string& directory);

// NOT_FOUND if there is no such template; names the nearest one. INVALID_ARGUMENT: "FILE:LINE:COLUMN: what is wrong".
base::Result<Template> load_template(const std::string& name, const Sources& sources);

// Reads a file's content and finds what it extends in `sources`. `file_name` is for errors.
base::Result<Template> parse_template(std::string_view content, const std::string& file_name, const Sources& sources);

// Returns the names of the user's own and the built-in templates, sorted, each once.
std::vector<std::string> template_names(const Sources& sources);

}  // namespace muster::job_templates
