/* The scripts of `abx completion`. Each only carries words to `abx __complete` and its answer back: what may stand where is
 * told by the program, so a script never lags behind it. */
#include <string.h>

#include "base/mem.h"
#include "doors/cli/complete.h"

/* bash cuts words at ":" and "=" and puts only the last part in place of what is typed; bash-completion is not needed. */
static const char bash[] =
    "# abx completion bash; for this shell: source <(abx completion bash)\n"
    "_abx() {\n"
    "    local line=${COMP_LINE:0:COMP_POINT} word cur='' i rest head\n"
    "    local -a words=()\n"
    "    rest=$line\n"
    "    for ((i = 0; i <= COMP_CWORD; i++)); do\n"
    "        word=${COMP_WORDS[i]}\n"
    "        head=${rest%%[![:space:]]*}\n"
    "        rest=${rest#\"$head\"}\n"
    "        ((i == COMP_CWORD)) && word=$rest\n"
    "        rest=${rest#\"$word\"}\n"
    "        if [[ -z $head && ${#words[@]} -gt 0 ]]; then\n"
    "            words[${#words[@]}-1]+=$word\n"
    "        else\n"
    "            words+=(\"$word\")\n"
    "        fi\n"
    "    done\n"
    "    cur=${words[${#words[@]}-1]}\n"
    "    head=''\n"
    "    [[ $cur == *[:=]* ]] && head=${cur%\"${cur##*[:=]}\"}\n"
    "    COMPREPLY=()\n"
    "    while IFS=$'\\t' read -r word rest; do\n"
    "        case $word in\n"
    "        :files) compopt -o default 2>/dev/null || true ;;\n"
    "        :folders) compopt -o dirnames 2>/dev/null || true ;;\n"
    "        *)\n"
    "            [[ $word == *[:=] ]] && { compopt -o nospace 2>/dev/null || true; }\n"
    "            COMPREPLY+=(\"${word#\"$head\"}\")\n"
    "            ;;\n"
    "        esac\n"
    "    done < <(abx __complete -- \"${words[@]:1}\" 2>/dev/null)\n"
    "}\n"
    "complete -F _abx abx\n";

static const char zsh[] =
    "#compdef abx\n"
    "# abx completion zsh; for this shell: source <(abx completion zsh)\n"
    "_abx() {\n"
    "    local line word text\n"
    "    local -a plain shown open openshown\n"
    "    local files=''\n"
    "    while IFS= read -r line; do\n"
    "        word=${line%%$'\\t'*}\n"
    "        text=''\n"
    "        [[ $line == *$'\\t'* ]] && text=${line#*$'\\t'}\n"
    "        case $word in\n"
    "        :files) files=files ;;\n"
    "        :folders) files=folders ;;\n"
    "        *[:=]) open+=(\"$word\"); openshown+=(\"$word${text:+  -- $text}\") ;;\n"
    "        *) plain+=(\"$word\"); shown+=(\"$word${text:+  -- $text}\") ;;\n"
    "        esac\n"
    "    done < <(abx __complete -- \"${(@Q)words[2,CURRENT]}\" 2>/dev/null)\n"
    "    local ret=1\n"
    "    ((${#plain})) && compadd -l -d shown -a plain && ret=0\n"
    "    ((${#open})) && compadd -l -S '' -d openshown -a open && ret=0\n"
    "    if [[ $files == files ]]; then\n"
    "        _files && ret=0\n"
    "    elif [[ $files == folders ]]; then\n"
    "        _files -/ && ret=0\n"
    "    fi\n"
    "    return ret\n"
    "}\n"
    "if [[ $zsh_eval_context[-1] == loadautofunc ]]; then\n"
    "    _abx \"$@\"\n"
    "elif (($+functions[compdef])); then\n"
    "    compdef _abx abx\n"
    "else\n"
    "    autoload -Uz compinit && compinit && compdef _abx abx\n"
    "fi\n";

static const char fish[] =
    "# abx completion fish; for this shell: abx completion fish | source\n"
    "function __abx_complete\n"
    "    set -l words (commandline -opc) (commandline -ct)\n"
    "    set -l ask\n"
    "    for line in (abx __complete -- $words[2..-1] 2>/dev/null)\n"
    "        switch $line\n"
    "            case :files\n"
    "                set ask files\n"
    "            case :folders\n"
    "                set ask folders\n"
    "            case '*'\n"
    "                echo $line\n"
    "        end\n"
    "    end\n"
    "    test \"$ask\" = files; and __fish_complete_path (commandline -ct)\n"
    "    test \"$ask\" = folders; and __fish_complete_directories (commandline -ct)\n"
    "    return 0\n"
    "end\n"
    "complete -c abx -f -a '(__abx_complete)'\n";

const char *abx_completion_script(const char *shell)
{
    static const struct {
        const char *shell, *text;
    } scripts[] = {{"bash", bash}, {"zsh", zsh}, {"fish", fish}};
    for (size_t i = 0; i < ABX_COUNT(scripts); i++)
        if (strcmp(scripts[i].shell, shell) == 0)
            return scripts[i].text;
    return NULL;
}
