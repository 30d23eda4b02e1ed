// Checks the values that a command line gives to a template's parameters, and puts them into the template's texts.
// Pure.
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

// Returns the error for a parameter that the template lacks; names the nearest one. `label` begins the sentence.
base::Status unknown_parameter(const Template& job_template, std::string_view name, std::string_view label);

// Checks one value against the parameter's type and range. `label` begins the error ("--nodes").
base::Status check_value(const Parameter& parameter, std::string_view value, std::string_view label);

class Values {
 public:
  explicit Values(const Template& job_template) : template_(&job_template) {}

  // A later value replaces an earlier one. `label` begins the error.
  base::Status set(std::string_view name, std::string_view value, std::string_view label);

  // Checks that every required parameter has a value. The error names all that have none.
  base::Status check_complete() const;

  // Returns the user's value, else the default. nullopt if there is neither.
  std::optional<std::string> get(std::string_view name) const;

  bool is_given(std::string_view name) const { return given_.contains(std::string(name)); }
  const Template& of() const { return *template_; }

 private:
  const Template* template_;
  std::map<std::string, std::string> given_;
};

// Parses "90s", "30m", "1h30m", "2h", "7d" or "0:30:00". A unit is required, because schedulers differ in theirs.
base::Result<std::chrono::seconds> parse_walltime(std::string_view text);

// Returns the parameters that a text names, in order. An error if braces do not match, or a parameter or its format is
// unknown. "{{" and "}}" stand for single braces.
base::Result<std::vector<std::string>> parameters_in(const Text& text, const Template& job_template,
                                                     const std::vector<std::string>& also_known = {});

// Options of fill().
struct FillOptions {
  // Transforms each value before it is put in; may refuse it.
  using UseValue = base::Result<std::string> (*)(std::string_view parameter, std::string_view value);
  UseValue use = nullptr;
  bool times_in_seconds = false;  // write times without a format as "5400s", for hvdrun, not as 1:30:00
};

// Returns the text with its parameters replaced by values; nullopt if it names a parameter without a value. Formats of
// times: {time:minutes} (rounded up), {time:seconds}, {time:hm} as 1:30, else 1:30:00.
base::Result<std::optional<std::string>> fill(const Text& text, const Values& values, FillOptions options = {});

// Does the same as fill(), in pieces. A name in braces that is not a parameter is a piece of its own, so no value can
// pose as one.
struct FilledPiece {
  std::string text;
  bool is_name = false;
};
base::Result<std::optional<std::vector<FilledPiece>>> fill_pieces(const Text& text, const Values& values,
                                                                  FillOptions options = {});

}  // namespace muster::job_templates
