// Finds templates and puts them together. NAME is looked for in the job's folder (./NAME.yaml), then among the user's
// own (~/.config/muster/templates/NAME.yaml), then among the built-in ones; a word with '/' or ending in .yaml is a
// file. A template that extends its own name means the next one of that name; what a built-in one extends is built in
// too. Reads files; any thread.
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

// The files of templates/, as parts of the program; by name.
std::span<const BuiltIn> built_in_templates();

struct Sources {
  std::string directory;    // the job's folder; empty: not looked at
  std::string user_folder;  // need not exist; empty: not looked at
  // Of files in `directory` that are found by a name only this user's and root's count; none: anyone's.
  std::optional<unsigned> owner = {};
};

Sources standard_sources(const base::Environment& environment, const std::string& directory);

// NOT_FOUND: there is no such template, with the nearest name. INVALID_ARGUMENT: "FILE:LINE:COLUMN: what is wrong".
base::Result<Template> load_template(const std::string& name, const Sources& sources);

// A file's content, with `extends` looked for in `sources`. `file_name` is for errors.
base::Result<Template> parse_template(std::string_view content, const std::string& file_name, const Sources& sources);

// Every name that load_template() knows, sorted; a template that is hidden by another one is not listed.
std::vector<std::string> template_names(const Sources& sources);

}  // namespace muster::job_templates
