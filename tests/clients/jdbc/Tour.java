// What a Java program does with a database through JDBC: connect, make a table, look at it, insert, ask, be refused.
// Arguments: the address, the user, the password ("" for neither), the schema (or catalog) whose tables are listed.
// Prints one line per finding, `what: answer`.

import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Timestamp;
import java.util.ArrayList;
import java.util.Calendar;
import java.util.List;
import java.util.Properties;
import java.util.TimeZone;

public class Tour {
    private static final Calendar UTC = Calendar.getInstance(TimeZone.getTimeZone("UTC"));

    public static void main(String[] arguments) throws SQLException {
        Properties login = new Properties();
        if (!arguments[1].isEmpty()) {
            login.setProperty("user", arguments[1]);
            login.setProperty("password", arguments[2]);
        }
        String kind = arguments[0].split(":")[1];
        try (Connection connection = DriverManager.getConnection(arguments[0], login)) {
            say("valid", connection.isValid(20));
            make(connection);
            look(connection.getMetaData(), kind, arguments[3]);
            insert(connection);
            ask(connection);
            beRefused(connection);
            if (!kind.equals("arrow-flight-sql")) {
                giveUp(connection);
            }
        }
    }

    private static void say(String what, Object answer) {
        System.out.println(what + ": " + answer);
    }

    private static void make(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.execute("DROP TABLE IF EXISTS jdbc_tour");
            statement.execute("CREATE TABLE jdbc_tour (host STRING, usage_value DOUBLE, hits BIGINT, is_up BOOLEAN, "
                + "ts TIMESTAMP TIME INDEX, PRIMARY KEY (host))");
        }
    }

    private static void look(DatabaseMetaData about, String kind, String schema) throws SQLException {
        say("product", about.getDatabaseProductName());
        boolean isMysql = kind.equals("mysql");
        String catalog = isMysql ? schema : null;
        String pattern = isMysql ? null : schema;
        try (ResultSet tables = about.getTables(catalog, pattern, "jdbc_tour", null)) {
            say("tables", read(tables, "TABLE_NAME"));
        }
        if (kind.equals("arrow-flight-sql")) {
            return;  // the driver asks for columns by tables with their schema, which the list above is
        }
        try (ResultSet columns = about.getColumns(catalog, pattern, "jdbc_tour", "%")) {
            say("columns", read(columns, "COLUMN_NAME"));
        }
        try (ResultSet keys = about.getPrimaryKeys(catalog, pattern, "jdbc_tour")) {
            say("keys", read(keys, "COLUMN_NAME"));
        }
        try (ResultSet found = isMysql ? about.getCatalogs() : about.getSchemas()) {
            say("schemas", read(found, isMysql ? "TABLE_CAT" : "TABLE_SCHEM").contains(schema));
        }
        try (ResultSet found = about.getTypeInfo()) {
            say("types", !read(found, "TYPE_NAME").isEmpty());
        }
    }

    private static List<String> read(ResultSet rows, String column) throws SQLException {
        List<String> found = new ArrayList<>();
        while (rows.next()) {
            found.add(rows.getString(column));
        }
        return found;
    }

    private static void insert(Connection connection) throws SQLException {
        String text = "INSERT INTO jdbc_tour (host, usage_value, hits, is_up, ts) VALUES (?, ?, ?, ?, ?)";
        try (PreparedStatement insert = connection.prepareStatement(text)) {
            for (int i = 0; i < 20; i++) {
                insert.setString(1, "host'" + i);
                insert.setDouble(2, i / 4.0);
                insert.setLong(3, i);
                insert.setBoolean(4, i % 2 == 0);
                insert.setTimestamp(5, new Timestamp(1700000000000L + i), UTC);
                insert.addBatch();
            }
            int sum = 0;
            for (int count : insert.executeBatch()) {
                sum += Math.max(count, count == Statement.SUCCESS_NO_INFO ? 1 : 0);
            }
            say("inserted", sum);
        }
    }

    private static void ask(Connection connection) throws SQLException {
        String text = "SELECT host, usage_value, hits, is_up, ts FROM jdbc_tour WHERE hits >= ? ORDER BY hits";
        try (PreparedStatement query = connection.prepareStatement(text)) {
            query.setFetchSize(3);
            int rows = 0;
            // Drivers change to binary values after some executions.
            for (int round = 0; round < 8; round++) {
                query.setLong(1, 17);
                try (ResultSet found = query.executeQuery()) {
                    while (found.next()) {
                        rows++;
                        if (round == 7 && found.getLong(3) == 19) {
                            say("row", found.getString(1) + " " + found.getDouble(2) + " " + found.getBoolean(4) + " "
                                + found.getTimestamp(5, UTC).getTime());
                        }
                    }
                }
            }
            say("rows", rows);
        }
        try (Statement statement = connection.createStatement();
             ResultSet found = statement.executeQuery("SELECT count(*) AS c, max(usage_value) AS m FROM jdbc_tour")) {
            found.next();
            say("counted", found.getInt("c") + " " + found.getDouble("m"));
        }
    }

    // A query that takes too long is cancelled, one that is not read to its end is closed; the connection lives on.
    private static void giveUp(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.setQueryTimeout(1);
            statement.executeQuery("SELECT count(*) FROM numbers a, numbers b, numbers c, numbers d, numbers e").close();
            say("gave up", "no");
        } catch (SQLException cancelled) {
            say("gave up", "yes");
        }
        try (Statement statement = connection.createStatement()) {
            statement.setMaxRows(2);
            ResultSet found = statement.executeQuery("SELECT hits FROM jdbc_tour ORDER BY hits");
            found.next();
            say("first", found.getLong(1));
            found.close();
        }
        try (Statement statement = connection.createStatement(); ResultSet one = statement.executeQuery("SELECT 2")) {
            one.next();
            say("still alive", one.getInt(1));
        }
    }

    private static void beRefused(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.executeQuery("SELECT * FROM nowhere_at_all").close();
            say("refused", "no");
        } catch (SQLException refused) {
            say("refused", refused.getSQLState());
        }
        try (Statement statement = connection.createStatement(); ResultSet one = statement.executeQuery("SELECT 1")) {
            one.next();
            say("alive", one.getInt(1));
        }
    }
}
