package rmqordered.testclients;

import java.util.HashMap;
import java.util.Map;

/** Command-line arguments of the form {@code --name value}. */
final class Arguments {
    private final Map<String, String> values = new HashMap<>();

    Arguments(String[] args) {
        if (args.length % 2 != 0) {
            throw new IllegalArgumentException("arguments come in pairs: --name value");
        }
        for (int i = 0; i < args.length; i += 2) {
            values.put(args[i].replaceFirst("^--", ""), args[i + 1]);
        }
    }

    String required(String name) {
        String value = values.get(name);
        if (value == null) {
            throw new IllegalArgumentException("--" + name + " is missing");
        }
        return value;
    }

    String optional(String name) {
        return values.get(name);
    }

    long number(String name, long otherwise) {
        String value = values.get(name);
        return value == null ? otherwise : Long.parseLong(value);
    }

    boolean flag(String name) {
        return Boolean.parseBoolean(values.get(name));
    }
}
