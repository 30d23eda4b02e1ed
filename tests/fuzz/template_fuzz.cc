// Job templates: reading ends, mistakes are one sentence, what is read is written as YAML that reads the same, and a
// script that comes out begins with its shell.
#include <cstdint>
#include <string_view>

#include "job_templates/load.h"
#include "job_templates/script.h"
#include "job_templates/shape.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace muster::job_templates;
  const std::string_view content(reinterpret_cast<const char*>(data), size);
  const auto read = parse_template(content, "t.yaml", {});
  if (!read.ok()) {
    MUSTER_CHECK(!read.status().message().empty());
    MUSTER_CHECK(read.status().message().find('\n') == std::string::npos);
    return 0;
  }
  const std::string text = format_document(read->merged);
  const auto again = parse_template(text, "again.yaml", {});
  MUSTER_CHECK(again.ok());
  MUSTER_CHECK(format_document(again->merged) == text);

  if (read->node.sockets * read->node.cores < 1024) (void)node_shape(*read);
  (void)made_up_names(read->node, 2);
  Values values(*read);
  for (const Parameter& parameter : read->parameters) {
    if (parameter.type == ParameterType::kString) (void)values.set(parameter.name, "; rm -rf '$x'", "--x");
  }
  ScriptRequest wish;
  wish.command = {"true"};
  const auto script = render_script(values, wish);
  MUSTER_CHECK(!script.ok() || script->starts_with("#!"));
  return 0;
}
