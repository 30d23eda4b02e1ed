#include "cli/doctor/doctor.h"

#include "base/strings.h"

namespace muster::cli::inline doctor {

ParsedDoctor parse_doctor(const std::vector<std::string>& arguments, const base::Environment& environment,
                          const ParseContext& context) {
  ParsedDoctor parsed;
  const HostVerb verb{.doc = doctor_doc(),
                      .take = [&parsed](const ParsedOption& option) -> base::Result<bool> {
                        if (option.flag->name != "json") return false;
                        parsed.json = true;
                        return true;
                      },
                      .advice =
                          [](const std::vector<std::string>& words) {
                            return fmt::format("hosts are named by -H {} or --hostfile",
                                               base::printable(base::join(words, ",")));
                          }};
  static_cast<HostVerbLine&>(parsed) = read_host_verb(verb, arguments, environment, context);
  return parsed;
}

}  // namespace muster::cli::doctor
