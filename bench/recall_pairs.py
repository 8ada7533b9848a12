"""What is asked, and the turn that answers it: the data set of `bench.recall`.

Written for this bench: paraphrases, not quotations, in several languages, and some questions in
another language than the turn. A question's one right answer is its own turn.
"""

from __future__ import annotations

from typing import Final

ACROSS: Final = "from one language to another"
BY_LANGUAGE: Final = {
    "English": (
        ("Where do we keep the backups?", "Nightly database dumps go to the bucket in Frankfurt."),
        ("Who is on call this weekend?", "Saturday and Sunday pager duty is Miriam's."),
        (
            "What did the customer complain about?",
            "The client was angry that the invoice came twice.",
        ),
        ("How do I get a refund?", "Money is returned within two weeks after you send the form."),
        ("When is the launch?", "We go live with the new site on the third of March."),
        ("What is my dog called?", "My puppy's name is Bello and he is four months old."),
        ("Am I allergic to anything?", "I cannot eat peanuts, they make my throat swell."),
        ("Which car do I drive?", "I bought a used Volvo estate last autumn."),
        ("Where did I go on vacation?", "We spent our summer holidays hiking in Norway."),
        ("How old are my children?", "My daughter turned six and my son is nine."),
        ("What medicine do I take?", "Every morning I swallow a pill against high blood pressure."),
        ("Why is the site slow?", "Page loads take long because the cache was switched off."),
        ("How do we roll back a release?", "To undo a deployment, redeploy the previous tag."),
        ("What broke the login?", "Sign-in failed as the certificate had expired."),
        ("Which database do we use?", "All our records are stored in Postgres 16."),
        ("How much does the plan cost?", "The subscription is forty dollars a month per seat."),
        ("Who approves expenses?", "Spending over 500 must be signed off by the finance lead."),
        ("What language is the backend in?", "The server code is written in Rust."),
        ("How can I reach support?", "Write to the help desk or call between nine and five."),
        ("What about the office?", "The lease downtown ends in June, then we move to the harbour."),
        ("Which exam do I have to pass?", "My final test in organic chemistry is next Tuesday."),
        ("How do I like my coffee?", "I drink my espresso without sugar or milk."),
        ("What instrument do I play?", "I have been practising the cello since I was ten."),
        (
            "What is wrong with the printer?",
            "Paper jams in the copier when both sides are printed.",
        ),
        ("Which flight did I book?", "My plane to Lisbon leaves at seven on Friday."),
        ("What should I cook tonight?", "For dinner I want to try a lentil curry recipe."),
        ("Who leads the design team?", "Head of the designers is Olga since January."),
        ("How many users do we have?", "There are about twelve thousand active accounts."),
        ("Where is the contract?", "The signed agreement lies in the legal folder."),
        ("Why was the payment rejected?", "The bank declined the card for lack of funds."),
        ("How do we encrypt files?", "Documents are protected with AES before upload."),
        ("What is the name of the ship?", "We crossed the Baltic on a ferry called Aurora."),
    ),
    "German": (
        ("Wo liegen die Sicherungen?", "Die Backups werden jede Nacht nach Frankfurt kopiert."),
        ("Wann ist die Besprechung?", "Wir treffen uns am Montag um zehn zum Meeting."),
        ("Wie heißt mein Kater?", "Meine Katze hört auf den Namen Mikesch."),
        ("Was vertrage ich nicht?", "Von Laktose bekomme ich Bauchschmerzen."),
        (
            "Warum ist der Server ausgefallen?",
            "Der Rechner stand still, weil die Festplatte voll war.",
        ),
        ("Wie viel kostet die Wohnung?", "Die Miete beträgt 900 Euro im Monat."),
        ("Welches Fahrrad habe ich?", "Ich fahre ein rotes Rennrad aus Stahl."),
        ("Wer kümmert sich um die Rechnungen?", "Die Buchhaltung macht Frau Yilmaz."),
    ),
    "French": (
        ("Où est stocké le code ?", "Le dépôt source se trouve sur notre serveur Git interne."),
        ("Quel est mon plat préféré ?", "J'adore manger des crêpes au fromage."),
        ("Quand part mon train ?", "Le TGV pour Lyon démarre à huit heures."),
        ("Qui est mon médecin ?", "Le docteur Martin me soigne depuis dix ans."),
        ("Pourquoi le colis est en retard ?", "La livraison a été bloquée à la douane."),
        ("Quelle langue j'apprends ?", "Je prends des cours de japonais le soir."),
    ),
    "Spanish": (
        ("¿Dónde vive mi hermana?", "Mi hermana se mudó a un piso en Valencia."),
        ("¿Qué deporte practico?", "Juego al baloncesto dos veces por semana."),
        ("¿Cuándo vence la factura?", "El recibo hay que pagarlo antes del 15 de mayo."),
        ("¿Por qué falló la prueba?", "El test dio error porque faltaba la contraseña."),
        ("¿Cuál es mi color favorito?", "El azul oscuro es el tono que más me gusta."),
    ),
    "Italian": (
        ("Dove lavora mio fratello?", "Mio fratello è impiegato in una banca a Torino."),
        ("Quando è il compleanno di Anna?", "Anna è nata il 4 luglio."),
        ("Che strumento suono?", "Studio il pianoforte da cinque anni."),
    ),
    "Portuguese": (
        ("Onde fica o escritório?", "A nossa sede é no centro do Porto."),
        ("Quem aprova as férias?", "Os dias de descanso são autorizados pela gerente."),
    ),
    "Dutch": (
        ("Waar staat mijn auto?", "Mijn wagen is geparkeerd achter het station."),
        ("Wat drink ik graag?", "Ik hou van thee met citroen."),
    ),
    "Polish": (("Gdzie jest klucz?", "Klucze leżą w szufladzie w kuchni."),),
    "Russian": (("Где я живу?", "Мой дом находится в Казани, на улице Пушкина."),),
    ACROSS: (
        ("Welche Versicherung habe ich?", "My health insurance is with the public fund."),
        ("Which wine did we like?", "Der Riesling von der Mosel hat uns gut geschmeckt."),
        ("Quel est le mot de passe wifi ?", "The wireless password is on the fridge."),
        ("What did the doctor say?", "El médico me recomendó caminar más."),
    ),
}
PAIRS: Final = tuple(pair for pairs in BY_LANGUAGE.values() for pair in pairs)
