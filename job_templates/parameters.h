// What is given at the command line for a template: words in, checked values out, and the texts of the template with
// the values in them. Pure.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "job_templates/template.h"

namespace muster::job_templates {

// NotFound-like: "PARAMETER" that the template does not have, with the nearest one. `label` begins the sentence.
base::Status unknown_parameter(const Template& job_template, std::string_view name, std::string_view label);

// One value, against the parameter's type and range. `label`: how errors begin ("--nodes").
base::Status check_value(const Parameter& parameter, std::string_view value, std::string_view label);

class Values {
 public:
  explicit Values(const Template& job_template) : template_(&job_template) {}

  // The last one counts. `label` as above.
  base::Status set(std::string_view name, std::string_view value, std::string_view label);

  // Every required parameter has a value; the error names all that have none.
  base::Status check_complete() const;

  // As given, else the default; nullopt: neither.
  std::optional<std::string> get(std::string_view name) const;

  bool is_given(std::string_view name) const { return given_.contains(std::string(name)); }
  const Template& of() const { return *template_; }

 private:
  const Template* template_;
  std::map<std::string, std::string> given_;
};

// "90s", "30m", "1h30m", "2h", "7d", "0:30:00": a unit is needed, since schedulers do not agree on one.
base::Result<std::chrono::seconds> parse_walltime(std::string_view text);

// The parameters that a text names, in order; the error: braces that do not fit, an unknown parameter, or a format that
// its type does not have. "{{" and "}}" are braces.
base::Result<std::vector<std::string>> parameters_in(const Text& text, const Template& job_template,
                                                     const std::vector<std::string>& also_known = {});

// What there is to say about how values are put in.
struct FillWish {
  // Each value goes through it first; it may refuse one.
  using UseValue = base::Result<std::string> (*)(std::string_view parameter, std::string_view value);
  UseValue use = nullptr;
  bool times_in_seconds = false;  // times without a format as "5400s", which hvdrun takes, not as 1:30:00
};

// The text with values in it; nullopt: it names a parameter without a value. Formats of times: {time:minutes} (rounded
// up), {time:seconds}, {time:hm} as 1:30, else 1:30:00.
base::Result<std::optional<std::string>> fill(const Text& text, const Values& values, FillWish wish = {});

// The same in pieces. Names in braces that are no parameters are pieces of their own, so that no value is taken for
// one.
struct FilledPiece {
  std::string text;
  bool is_name = false;
};
base::Result<std::optional<std::vector<FilledPiece>>> fill_pieces(const Text& text, const Values& values,
                                                                  FillWish wish = {});

}  // namespace muster::job_templates
